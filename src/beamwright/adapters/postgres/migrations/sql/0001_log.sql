CREATE TABLE events (
    position       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       uuid NOT NULL UNIQUE,
    stream_type    text NOT NULL,
    stream_id      uuid NOT NULL,
    version        integer NOT NULL CHECK (version >= 1),
    event_type     text NOT NULL,
    schema_version integer NOT NULL DEFAULT 1,
    payload        json NOT NULL,
    principal_id   uuid NOT NULL,
    command_name   text NOT NULL,
    surface_id     uuid NOT NULL,
    correlation_id text NOT NULL,
    causation_id   uuid,
    occurred_at    timestamptz NOT NULL,
    recorded_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
    UNIQUE (stream_type, stream_id, version)
)
---
COMMENT ON TABLE events IS 'Append-only log of facts; rows are inserted and never changed.'
---
-- Readers page by this pair: a newer transaction can hold a lower position.
CREATE INDEX events_reading_order ON events (transaction_id, position)
---
-- Appends to these types are serialised by the authority lock, so position alone orders them.
CREATE INDEX events_authority ON events (position)
    WHERE stream_type IN ('Actor', 'Agent', 'Conduit', 'Facility', 'Policy', 'Surface', 'Visit')
---
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the event log is append-only: % refused', TG_OP USING ERRCODE = 'restrict_violation';
END $$
---
CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()
---
CREATE TABLE claims (
    kind        text NOT NULL,
    key         text NOT NULL,
    stream_type text NOT NULL,
    stream_id   uuid NOT NULL,
    PRIMARY KEY (kind, key)
)
---
CREATE TABLE idempotency (
    surface_id     uuid NOT NULL,
    principal_id   uuid NOT NULL,
    key            text NOT NULL,
    request_hash   bytea NOT NULL,
    status         integer NOT NULL,
    body           text NOT NULL,
    transaction_id xid8,
    position       bigint,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (surface_id, principal_id, key)
)
---
CREATE INDEX idempotency_age ON idempotency (created_at)
---
CREATE TABLE authority (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    epoch  bigint NOT NULL
)
---
INSERT INTO authority (epoch) VALUES (0)
---
CREATE TABLE projections (
    name           text NOT NULL,
    version        text NOT NULL,
    serving        boolean NOT NULL DEFAULT false,
    transaction_id bigint NOT NULL DEFAULT 0,
    position       bigint NOT NULL DEFAULT 0,
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    failures       integer NOT NULL DEFAULT 0,
    last_error     text,
    retry_at       timestamptz,
    PRIMARY KEY (name, version)
)
---
CREATE TABLE leases (
    name       text PRIMARY KEY,
    holder     uuid NOT NULL,
    expires_at timestamptz NOT NULL
)
---
CREATE SCHEMA lists
