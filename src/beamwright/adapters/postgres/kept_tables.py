"""Which tables are the record itself; everything else is derived from it or means nothing elsewhere."""

from typing import NamedTuple

from .positions import VERSION

EVENTS = "events"


class Kept(NamedTuple):
    """A table that a backup holds, and which of its rows."""

    name: str
    where: str = "true"


KEPT = (
    Kept("log_epochs"),
    Kept(EVENTS),
    Kept("claims"),
    Kept("idempotency"),
    Kept("authority"),
    Kept("actor_profile"),
    Kept("actor_identity"),
    Kept("erasable_texts"),
    Kept("identifier_outbox"),
    Kept("federation_outbox"),
    Kept("observer_contacts"),
    Kept("run_feed_heartbeats"),
    Kept("entries_run_observations"),
    Kept("run_channels"),
    Kept("entries_procedure_activities"),
    Kept("entries_procedure_outcomes"),
    Kept("conduit_verdicts"),
    # How far each reaction has followed the log: without it they would all react once more. Lists are rebuilt.
    Kept("projections", f"version = '{VERSION}'"),
)

# Which process works is of the moment, and the schema is in the manifest.
NOT_KEPT = frozenset({"leases", "alembic_version"})
