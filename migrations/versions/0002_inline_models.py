"""Plans of models that are given inline name no catalog version.

Expand: a column that had to be there may be null.
"""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.alter_column("plans", "model_version", nullable=True)


def downgrade() -> None:
    op.alter_column("plans", "model_version", nullable=False)
