CREATE TABLE conduit_verdicts (
    verdict_id           uuid NOT NULL,
    occurred_at          timestamptz NOT NULL,
    conduit_id           uuid NOT NULL,
    surface_id           uuid NOT NULL,
    principal_id         uuid NOT NULL,
    command_name         text NOT NULL,
    decision             text NOT NULL,
    reason               text NOT NULL,
    determining_policies uuid[] NOT NULL,
    object_type          text,
    object_id            uuid,
    correlation_id       text NOT NULL,
    PRIMARY KEY (occurred_at, verdict_id)
) PARTITION BY RANGE (occurred_at)
---
CREATE INDEX conduit_verdicts_conduit ON conduit_verdicts (conduit_id, occurred_at, verdict_id)
---
CREATE TABLE conduit_verdicts_rest PARTITION OF conduit_verdicts DEFAULT
---
CREATE FUNCTION keep_verdict_months(now timestamptz, retention interval) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    month timestamptz;
    old record;
BEGIN
    PERFORM pg_advisory_xact_lock(7231990000000000001);
    FOR offset_months IN 0 .. 1 LOOP
        month := date_trunc('month', now AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + make_interval(months => offset_months);
        IF to_regclass('conduit_verdicts_' || to_char(month AT TIME ZONE 'UTC', 'YYYYMM')) IS NULL
            AND NOT EXISTS (SELECT FROM conduit_verdicts_rest WHERE occurred_at >= month
                AND occurred_at < month + interval '1 month') THEN
            BEGIN
                EXECUTE format('CREATE TABLE %I PARTITION OF conduit_verdicts FOR VALUES FROM (%L) TO (%L)',
                    'conduit_verdicts_' || to_char(month AT TIME ZONE 'UTC', 'YYYYMM'), month,
                    month + interval '1 month');
            EXCEPTION WHEN check_violation THEN
                -- Rows of this month came into the rest meanwhile, where they are kept and dropped as well.
                NULL;
            END;
        END IF;
    END LOOP;
    FOR old IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'conduit_verdicts'::regclass AND c.relname ~ '^conduit_verdicts_[0-9]{6}$'
            AND to_timestamp(right(c.relname, 6), 'YYYYMM') + interval '1 month' < now - retention
    LOOP
        EXECUTE format('DROP TABLE %I', old.relname);
    END LOOP;
    DELETE FROM conduit_verdicts_rest WHERE occurred_at < now - retention;
END $$
