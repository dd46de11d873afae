"""What engines printed when they started, beside the plans of them.

Expand: a new table. Append-only by trigger, as all history is.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "observations",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False, comment="The very bytes that were hashed into the id"),
        sa.Column("body", sa.LargeBinary, nullable=False, comment="The very bytes that were sent"),
        sa.Column("row", sa.LargeBinary, nullable=False, comment="The observation as a line of a list, JSON"),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("model_digest", sa.Text, nullable=False),
        sa.Column("gpu", sa.Text, nullable=False),
        sa.Column("engine", sa.Text, nullable=False),
        sa.Column("family", sa.Text, nullable=False, comment="Of the caches"),
        sa.Column("tensor_parallel", sa.Integer, nullable=False),
        sa.Column(
            "observed_digest",
            sa.Text,
            nullable=False,
            comment="Of the start-up alone: one may be told of several plans",
        ),
        sa.Column(
            "reserve",
            sa.BigInteger,
            comment="Bytes that the rank kept back; null where the start-up didn't say enough",
        ),
        sa.Column("conditions", sa.Text, nullable=False, comment="What else the reserve depends on, canonical JSON"),
        sa.PrimaryKeyConstraint("id", name="pk_observations"),
        sa.CheckConstraint("id ~ '^obs_[0-9a-f]{64}$'", name="id_form"),
        sa.ForeignKeyConstraint(["plan"], ["plans.id"], name="fk_observations_plan"),
        comment="What engines printed, beside what was predicted; content-addressed; append-only by trigger.",
    )
    op.create_index("ix_observations_created_at_id", "observations", ["created_at", "id"])
    op.create_index(
        "ix_observations_model_gpu_engine_tensor_parallel",
        "observations",
        ["model", "gpu", "engine", "tensor_parallel"],
    )
    op.create_index("ix_observations_engine", "observations", ["engine"])
    op.create_index("ix_observations_plan", "observations", ["plan"])
    op.execute(
        "CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON observations"
        " FOR EACH ROW EXECUTE FUNCTION refuse_change_of_history()"
    )
    op.execute(
        "CREATE TRIGGER append_only_table BEFORE TRUNCATE ON observations"
        " FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_history()"
    )
    for trigger in ("append_only_rows", "append_only_table"):
        op.execute(f"ALTER TABLE observations ENABLE ALWAYS TRIGGER {trigger}")


def downgrade() -> None:
    op.drop_table("observations")
