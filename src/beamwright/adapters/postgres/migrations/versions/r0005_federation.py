"""The outbox of signed statements for peers."""

from alembic import op

from beamwright.adapters.postgres.migrations.statements import statements

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    for statement in statements("0005_federation"):
        op.execute(statement)
