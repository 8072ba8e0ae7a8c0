CREATE TABLE federation_outbox (
    statement_id     uuid NOT NULL,
    peer_facility_id uuid NOT NULL,
    kind             text NOT NULL,
    -- The event that holds the statement.
    stream_id        uuid NOT NULL,
    version          integer NOT NULL,
    ledger_number    bigint,
    state            text NOT NULL DEFAULT 'Pending',
    attempts         integer NOT NULL DEFAULT 0,
    next_attempt_at  timestamptz NOT NULL,
    claimed_until    timestamptz,
    last_error       text,
    delivered_at     timestamptz,
    requested_at     timestamptz NOT NULL,
    PRIMARY KEY (statement_id, peer_facility_id)
)
---
CREATE INDEX federation_outbox_due ON federation_outbox (next_attempt_at) WHERE state = 'Pending'
---
GRANT SELECT, INSERT, UPDATE, DELETE ON federation_outbox TO beamwright_service
