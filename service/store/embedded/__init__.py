"""The embedded PostgreSQL: `postgresql.py` is the entrance, and names what the other modules are for."""

from service.store.embedded.postgresql import (
    DataFolderInUse,
    data_folder,
    embedded_postgresql,
    running_postgresql,
)

__all__ = ["DataFolderInUse", "data_folder", "embedded_postgresql", "running_postgresql"]
