"""The log, claims, idempotency, authority epoch, read-model bookmarks, leases, profiles, verdicts, roles."""

from alembic import op

from beamwright.adapters.postgres.migrations.statements import statements

revision = "0001"
down_revision = None


def upgrade() -> None:
    for file in ("0001_log", "0001_append", "0001_profiles", "0001_verdicts", "0001_roles"):
        for statement in statements(file):
            op.execute(statement)
