CREATE TABLE observer_contacts (
    aggregate_type   text NOT NULL,
    aggregate_id     uuid NOT NULL,
    source_kind      text NOT NULL,
    source_id        text NOT NULL,
    connected        boolean NOT NULL,
    last_contact_at  timestamptz,
    last_observed_at timestamptz,
    last_error       text,
    PRIMARY KEY (aggregate_type, aggregate_id)
)
---
CREATE TABLE identifier_outbox (
    request_event_id uuid PRIMARY KEY,
    aggregate_type   text NOT NULL,
    aggregate_id     uuid NOT NULL,
    scheme           text NOT NULL,
    suffix           text NOT NULL,
    -- `Mint` asks for an identifier; `Refresh` sends the record of an identified object again.
    purpose          text NOT NULL DEFAULT 'Mint',
    state            text NOT NULL DEFAULT 'Pending',
    attempts         integer NOT NULL DEFAULT 0,
    next_attempt_at  timestamptz NOT NULL,
    claimed_until    timestamptz,
    last_error       text,
    requested_at     timestamptz NOT NULL
)
---
CREATE INDEX identifier_outbox_due ON identifier_outbox (next_attempt_at) WHERE state = 'Pending'
---
CREATE INDEX identifier_outbox_of ON identifier_outbox (aggregate_type, aggregate_id)
---
GRANT SELECT, INSERT, UPDATE, DELETE ON observer_contacts, identifier_outbox TO beamwright_service
