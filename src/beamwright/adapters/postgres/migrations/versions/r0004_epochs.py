"""Epochs of the log: what orders it stays true when the database is restored into another cluster."""

from alembic import op

from beamwright.adapters.postgres.migrations.statements import statements

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    for statement in statements("0004_epochs"):
        op.execute(statement)
