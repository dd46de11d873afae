"""The weights that a recorded reserve is beside.

Expand: a column that may be null. What is recorded already stays as it is: history isn't written anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column(
        "observations",
        sa.Column(
            "weights",
            sa.BigInteger,
            comment="Bytes that were planned for the weights beside that reserve; null where that wasn't kept yet",
        ),
    )


def downgrade() -> None:
    op.drop_column("observations", "weights")
