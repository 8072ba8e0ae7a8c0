"""What was done in procedures, and what came of it."""

from alembic import op

from beamwright.adapters.postgres.migrations.statements import statements

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    for statement in statements("0006_operation"):
        op.execute(statement)
