CREATE TABLE erasable_texts (
    text_id uuid PRIMARY KEY,
    body    text NOT NULL
)
---
-- Fixed-width columns first: no byte is lost to alignment in what may be hundreds of millions of rows.
CREATE TABLE entries_run_observations (
    run_id             uuid NOT NULL,
    event_id           uuid NOT NULL,
    principal_id       uuid NOT NULL,
    value              double precision NOT NULL,
    sampled_at         timestamptz NOT NULL,
    recorded_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    simulated          boolean NOT NULL,
    late               boolean NOT NULL,
    channel_name       text NOT NULL,
    sampling_procedure text NOT NULL,
    correlation_id     text NOT NULL,
    source_id          text,
    unit_system        text,
    unit_code          text,
    unit_label         text,
    PRIMARY KEY (run_id, event_id)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 100000)
---
-- Buckets are worked out from this index alone, as long as vacuum keeps up: hence the settings above.
CREATE INDEX entries_run_observations_read ON entries_run_observations (run_id, channel_name, sampled_at)
    INCLUDE (value)
---
CREATE TABLE run_channels (
    run_id            uuid NOT NULL,
    channel_name      text NOT NULL,
    observation_count bigint NOT NULL,
    first_sampled_at  timestamptz NOT NULL,
    last_sampled_at   timestamptz NOT NULL,
    minimum           double precision NOT NULL,
    maximum           double precision NOT NULL,
    PRIMARY KEY (run_id, channel_name)
) WITH (fillfactor = 50)
---
-- Whatever way rows come in, the summary of their channels is right in the same transaction.
CREATE FUNCTION summarise_run_channels() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO run_channels AS c (
        run_id, channel_name, observation_count, first_sampled_at, last_sampled_at, minimum, maximum)
    SELECT run_id, channel_name, count(*), min(sampled_at), max(sampled_at), min(value), max(value)
    FROM added GROUP BY run_id, channel_name ORDER BY run_id, channel_name
    ON CONFLICT (run_id, channel_name) DO UPDATE SET
        observation_count = c.observation_count + excluded.observation_count,
        first_sampled_at = least(c.first_sampled_at, excluded.first_sampled_at),
        last_sampled_at = greatest(c.last_sampled_at, excluded.last_sampled_at),
        minimum = least(c.minimum, excluded.minimum),
        maximum = greatest(c.maximum, excluded.maximum);
    RETURN NULL;
END $$
---
CREATE TRIGGER entries_run_observations_summary AFTER INSERT ON entries_run_observations
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION summarise_run_channels()
---
CREATE TABLE run_feed_heartbeats (
    run_id       uuid NOT NULL,
    source_id    text NOT NULL,
    last_seen_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, source_id)
)
---
GRANT SELECT, INSERT, UPDATE, DELETE ON erasable_texts, run_feed_heartbeats TO beamwright_service
---
GRANT SELECT, INSERT ON entries_run_observations TO beamwright_service
---
GRANT SELECT, INSERT, UPDATE ON run_channels TO beamwright_service
