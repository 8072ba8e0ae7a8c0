"""When observed sources were last heard, and the outbox of requests for persistent identifiers."""

from alembic import op

from beamwright.adapters.postgres.migrations.statements import statements

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    for statement in statements("0002_equipment"):
        op.execute(statement)
