"""The tables. Changed by migrations only; `alembic check` holds them against each other."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_MOMENT = DateTime(timezone=True)

catalog_head = Table(
    "catalog_head",
    metadata,
    Column("id", SmallInteger, CheckConstraint("id = 1", name="one_row"), primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
    Column("at", _MOMENT, nullable=False),
    comment="The newest catalog revision. A write locks this row, so revisions have no gap.",
)

catalog_versions = Table(
    "catalog_versions",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("version", Integer, CheckConstraint("version > 0", name="version_counts"), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("status", Text, CheckConstraint("status IN ('active', 'retired')", name="status"), nullable=False),
    Column("spec", LargeBinary, nullable=False, comment="Canonical JSON: the very bytes of the digest"),
    Column("digest", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("note", Text),
    Column("author", Text, nullable=False),
    Column("at", _MOMENT, nullable=False),
    UniqueConstraint("kind", "key", "version"),
    Index(None, "revision"),
    comment="Immutable by trigger.",
)


def _catalog_reference(name: str, *, nullable: bool = False) -> Column[object]:
    return Column(name, Uuid, ForeignKey(catalog_versions.c.id), nullable=nullable)


plans = Table(
    "plans",
    metadata,
    Column("id", Text, CheckConstraint("id ~ '^pln_[0-9a-f]{64}$'", name="id_form"), primary_key=True),
    Column("question", LargeBinary, nullable=False, comment="The very bytes that were hashed into the id"),
    Column("answer", LargeBinary, nullable=False, comment="The very bytes that were sent"),
    Column("answer_digest", Text, nullable=False),
    Column("row", LargeBinary, nullable=False, comment="The plan as a line of a list, JSON: lists read nothing else"),
    _catalog_reference("model_version", nullable=True),
    _catalog_reference("gpu_version"),
    _catalog_reference("engine_version"),
    _catalog_reference("workload_version", nullable=True),
    Column("planner", Integer, nullable=False),
    Column("created_at", _MOMENT, nullable=False),
    Column("model", Text, nullable=False),
    Column("gpu", Text, nullable=False),
    Column("engine", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Index(None, "created_at", "id"),
    Index(None, "model"),
    Index(None, "gpu"),
    comment="Content-addressed; immutable by trigger.",
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", Uuid, primary_key=True, comment="UUIDv7"),
    Column("at", _MOMENT, nullable=False),
    Column("plan", Text, ForeignKey(plans.c.id), nullable=False),
    Column("answer_digest", Text, nullable=False),
    Column("catalog_revision", BigInteger, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("source", Text, nullable=False, comment="What the question came through"),
    Column("request_id", Text, nullable=False),
    Column("trace_id", Text),
    Column("labels", JSONB, nullable=False),
    Index(None, "plan"),
    comment="One row per question asked; append-only by trigger.",
)

observations = Table(
    "observations",
    metadata,
    Column("id", Text, CheckConstraint("id ~ '^obs_[0-9a-f]{64}$'", name="id_form"), primary_key=True),
    Column("plan", Text, ForeignKey(plans.c.id), nullable=False),
    Column("content", LargeBinary, nullable=False, comment="The very bytes that were hashed into the id"),
    Column("body", LargeBinary, nullable=False, comment="The very bytes that were sent"),
    Column("row", LargeBinary, nullable=False, comment="The observation as a line of a list, JSON"),
    Column("created_at", _MOMENT, nullable=False),
    Column("model", Text, nullable=False),
    Column("model_digest", Text, nullable=False),
    Column("gpu", Text, nullable=False),
    Column("engine", Text, nullable=False),
    Column("family", Text, nullable=False, comment="Of the caches"),
    Column("tensor_parallel", Integer, nullable=False),
    Column("observed_digest", Text, nullable=False, comment="Of the start-up alone: one may be told of several plans"),
    Column("reserve", BigInteger, comment="Bytes that the rank kept back; null where the start-up didn't say enough"),
    Column("conditions", Text, nullable=False, comment="What else the reserve depends on, canonical JSON"),
    Column(
        "weights",
        BigInteger,
        comment="Bytes that were planned for the weights beside that reserve; null where that wasn't kept yet",
    ),
    Index(None, "created_at", "id"),
    Index(None, "model", "gpu", "engine", "tensor_parallel"),
    Index(None, "engine"),
    Index(None, "plan"),
    comment="What engines printed, beside what was predicted; content-addressed; append-only by trigger.",
)
