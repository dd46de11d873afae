"""Catalog versions, plans and decisions.

Expand: the first tables. History is append-only by trigger, for every role.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

_MOMENT = sa.DateTime(timezone=True)

_APPEND_ONLY = ("catalog_versions", "plans", "decisions")


def upgrade() -> None:
    op.create_table(
        "catalog_head",
        sa.Column("id", sa.SmallInteger, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_catalog_head"),
        sa.CheckConstraint("id = 1", name="one_row"),
        comment="The newest catalog revision. A write locks this row, so revisions have no gap.",
    )
    op.execute("INSERT INTO catalog_head (id, revision, at) VALUES (1, 0, now())")
    op.create_table(
        "catalog_versions",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("spec", sa.LargeBinary, nullable=False, comment="Canonical JSON: the very bytes of the digest"),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("note", sa.Text),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("at", _MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_catalog_versions"),
        sa.UniqueConstraint("kind", "key", "version", name="uq_catalog_versions_kind_key_version"),
        sa.CheckConstraint("version > 0", name="version_counts"),
        sa.CheckConstraint("status IN ('active', 'retired')", name="status"),
        comment="Immutable by trigger.",
    )
    op.create_index("ix_catalog_versions_revision", "catalog_versions", ["revision"])
    op.create_table(
        "plans",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("question", sa.LargeBinary, nullable=False, comment="The very bytes that were hashed into the id"),
        sa.Column("answer", sa.LargeBinary, nullable=False, comment="The very bytes that were sent"),
        sa.Column("answer_digest", sa.Text, nullable=False),
        sa.Column(
            "row", sa.LargeBinary, nullable=False, comment="The plan as a line of a list, JSON: lists read nothing else"
        ),
        sa.Column("model_version", sa.Uuid, nullable=False),
        sa.Column("gpu_version", sa.Uuid, nullable=False),
        sa.Column("engine_version", sa.Uuid, nullable=False),
        sa.Column("workload_version", sa.Uuid),
        sa.Column("planner", sa.Integer, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("gpu", sa.Text, nullable=False),
        sa.Column("engine", sa.Text, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_plans"),
        sa.CheckConstraint("id ~ '^pln_[0-9a-f]{64}$'", name="id_form"),
        *(
            sa.ForeignKeyConstraint([column], ["catalog_versions.id"], name=f"fk_plans_{column}")
            for column in ("model_version", "gpu_version", "engine_version", "workload_version")
        ),
        comment="Content-addressed; immutable by trigger.",
    )
    op.create_index("ix_plans_created_at_id", "plans", ["created_at", "id"])
    op.create_index("ix_plans_model", "plans", ["model"])
    op.create_index("ix_plans_gpu", "plans", ["gpu"])
    op.create_table(
        "decisions",
        sa.Column("id", sa.Uuid, nullable=False, comment="UUIDv7"),
        sa.Column("at", _MOMENT, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("answer_digest", sa.Text, nullable=False),
        sa.Column("catalog_revision", sa.BigInteger, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False, comment="What the question came through"),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("trace_id", sa.Text),
        sa.Column("labels", postgresql.JSONB, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
        sa.ForeignKeyConstraint(["plan"], ["plans.id"], name="fk_decisions_plan"),
        comment="One row per question asked; append-only by trigger.",
    )
    op.create_index("ix_decisions_plan", "decisions", ["plan"])
    op.execute(
        """
        CREATE FUNCTION refuse_change_of_history() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
        END
        $$
        """
    )
    for table in _APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION refuse_change_of_history()"
        )
        # A row trigger doesn't see TRUNCATE.
        op.execute(
            f"CREATE TRIGGER append_only_table BEFORE TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_history()"
        )
        # ALWAYS: a session that calls itself a replica would pass an ordinary trigger by.
        for trigger in ("append_only_rows", "append_only_table"):
            op.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}")
