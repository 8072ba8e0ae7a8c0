"""Texts that can be erased, and what is recorded in bulk beside the log."""

from alembic import op

from beamwright.adapters.postgres.migrations.statements import statements

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    for statement in statements("0003_runs"):
        op.execute(statement)
