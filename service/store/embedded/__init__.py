"""The embedded PostgreSQL: `postgresql.py` is the entrance, and names what the other modules are for."""

from service.store.embedded.postgresql import data_folder, embedded_postgresql

__all__ = ["data_folder", "embedded_postgresql"]
