"""What `alembic check` asks for: the migrations make the tables that the code declares."""

from alembic import command
from alembic.config import Config

from service.store.migrations import connected, migrate, migrations_folder
from tests.servers import throw_away_server


def test_the_migrations_make_the_tables_that_the_code_declares() -> None:
    with throw_away_server() as dsn:
        migrate(dsn)
        with connected(dsn) as connection:
            configuration = Config()
            configuration.set_main_option("script_location", str(migrations_folder()))
            configuration.attributes["connection"] = connection
            command.check(configuration)  # raises, naming what differs
