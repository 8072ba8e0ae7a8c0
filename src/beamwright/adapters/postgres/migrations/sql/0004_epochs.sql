-- An epoch is a stretch of the log that one cluster numbers. Transactions are counted by the cluster, and every
-- cluster begins low; so what a new cluster counts is shifted, and its events come after all that was brought along.
CREATE TABLE log_epochs (
    first_transaction_id xid8 PRIMARY KEY,
    -- The end of what was brought along: nothing lies between it and the first transaction.
    last_transaction_id  xid8 NOT NULL,
    last_position        bigint NOT NULL,
    -- Transactions before that end which were still under way when the backup was taken, so they are not in it.
    unfinished           xid8[] NOT NULL,
    cluster              text NOT NULL,
    began_at             timestamptz NOT NULL DEFAULT clock_timestamp()
)
---
-- Which cluster this is, and which of its histories: a recovery to an earlier time begins another.
CREATE FUNCTION log_cluster() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_control_system()) || '/'
        || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
EXCEPTION WHEN insufficient_privilege THEN
    RETURN '';
END $$
---
INSERT INTO log_epochs (first_transaction_id, last_transaction_id, last_position, unfinished, cluster)
VALUES ('0', '0', 0, '{}', log_cluster())
---
-- Readers stay below it: no transaction that is still under way can put an event there. An epoch writes its shift
-- into the function, so that it is inlined into every query and costs no lookup.
CREATE FUNCTION log_horizon() RETURNS xid8 LANGUAGE sql STABLE AS $$
    SELECT pg_snapshot_xmin(pg_current_snapshot())
$$
---
-- Numbers begin with the time, a million to the millisecond. No cluster is so quick, so they are above any that was
-- ever given out, also by a history that is lost: a token of it falls into the gap and is recognised.
CREATE FUNCTION begin_log_epoch(unfinished xid8[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    end_transaction bigint;
    end_position bigint;
    first bigint;
    shift bigint;
BEGIN
    -- Nobody may be half through an append whose number is of the old epoch.
    LOCK TABLE events IN ACCESS EXCLUSIVE MODE;
    SELECT transaction_id::text::bigint, position INTO end_transaction, end_position FROM events
    ORDER BY events.transaction_id DESC, events.position DESC LIMIT 1;
    first := greatest((extract(epoch FROM clock_timestamp()) * 1000)::bigint << 20, end_transaction + 1,
        (SELECT max(first_transaction_id)::text::bigint + 1 FROM log_epochs));
    shift := first - pg_current_xact_id()::text::bigint;
    INSERT INTO log_epochs (first_transaction_id, last_transaction_id, last_position, unfinished, cluster)
    VALUES (first::text::xid8, coalesce(end_transaction, 0)::text::xid8, coalesce(end_position, 0),
        ARRAY(SELECT id FROM unnest(begin_log_epoch.unfinished) AS id WHERE id::text::bigint < end_transaction),
        log_cluster());
    EXECUTE format('ALTER TABLE events ALTER COLUMN transaction_id
        SET DEFAULT ((pg_current_xact_id()::text::bigint + %s)::text)::xid8', shift);
    EXECUTE format('CREATE OR REPLACE FUNCTION log_horizon() RETURNS xid8 LANGUAGE sql STABLE AS
        $horizon$ SELECT ((pg_snapshot_xmin(pg_current_snapshot())::text::bigint + %s)::text)::xid8 $horizon$', shift);
END $$
---
GRANT SELECT ON log_epochs TO beamwright_service
---
-- As before, but the number of the transaction is the one that its events were given.
CREATE OR REPLACE FUNCTION append_commands(
    locks append_lock[], commands append_command[], seen append_seen[], searched append_searched[],
    claimed append_claim[], released append_release[], events append_event[], answers append_answer[],
    OUT outcomes text[], OUT details integer[], OUT positions bigint[], OUT transaction bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    wanted append_lock;
    command append_command;
    stream append_seen;
    search append_searched;
    claim append_claim;
    release append_release;
    event append_event;
    answer append_answer;
    current_epoch bigint;
    head integer;
    written bigint;
    numbered xid8;
    number integer := 0;
BEGIN
    outcomes := array_fill('ok'::text, ARRAY[cardinality(commands)]);
    details := array_fill(0, ARRAY[cardinality(commands)]);
    positions := array_fill(0::bigint, ARRAY[cardinality(commands)]);

    FOREACH wanted IN ARRAY locks LOOP
        IF wanted.shared THEN
            PERFORM pg_advisory_xact_lock_shared(wanted.key);
        ELSE
            PERFORM pg_advisory_xact_lock(wanted.key);
        END IF;
    END LOOP;

    -- Nothing below can be overtaken: whoever wants to change what is checked here waits for our locks.
    SELECT a.epoch INTO current_epoch FROM authority a;
    FOREACH command IN ARRAY commands LOOP
        number := number + 1;
        IF command.epoch <> current_epoch THEN
            outcomes[number] := 'epoch';
        END IF;
    END LOOP;

    FOREACH stream IN ARRAY seen LOOP
        SELECT e.version INTO head FROM events e
        WHERE e.stream_type = stream.stream_type AND e.stream_id = stream.stream_id
        ORDER BY e.version DESC LIMIT 1;
        IF coalesce(head, 0) <> stream.version THEN
            outcomes[stream.command] := 'race';
        END IF;
    END LOOP;

    FOREACH search IN ARRAY searched LOOP
        PERFORM FROM events e
        WHERE (e.transaction_id, e.position) > (search.transaction_id::xid8, search.position)
            AND e.stream_type = search.stream_type LIMIT 1;
        IF FOUND THEN
            outcomes[search.command] := 'race';
        END IF;
    END LOOP;

    FOREACH answer IN ARRAY answers LOOP
        PERFORM FROM idempotency i WHERE i.surface_id = commands[answer.command].surface_id
            AND i.principal_id = commands[answer.command].principal_id AND i.key = answer.key;
        IF FOUND THEN
            outcomes[answer.command] := 'answered';
        END IF;
    END LOOP;

    number := 0;
    FOREACH claim IN ARRAY claimed LOOP
        IF outcomes[claim.command] = 'ok' THEN
            PERFORM FROM claims c WHERE c.kind = claim.kind AND c.key = claim.key;
            IF FOUND THEN
                outcomes[claim.command] := 'claim';
                details[claim.command] := number;
            END IF;
        END IF;
        number := number + 1;
    END LOOP;

    FOREACH release IN ARRAY released LOOP
        IF outcomes[release.command] = 'ok' THEN
            DELETE FROM claims c WHERE c.kind = release.kind AND c.key = release.key;
        END IF;
    END LOOP;
    FOREACH claim IN ARRAY claimed LOOP
        IF outcomes[claim.command] = 'ok' THEN
            INSERT INTO claims (kind, key, stream_type, stream_id)
            VALUES (claim.kind, claim.key, claim.stream_type, claim.stream_id);
        END IF;
    END LOOP;

    FOREACH event IN ARRAY append_commands.events LOOP
        IF outcomes[event.command] = 'ok' THEN
            command := commands[event.command];
            INSERT INTO events (event_id, stream_type, stream_id, version, event_type, schema_version, payload,
                principal_id, command_name, surface_id, correlation_id, causation_id, occurred_at)
            VALUES (event.event_id, event.stream_type, event.stream_id, event.version, event.event_type,
                event.schema_version, event.payload::json, command.principal_id, command.command_name,
                command.surface_id, command.correlation_id, command.causation_id, event.occurred_at)
            RETURNING position, transaction_id INTO written, numbered;
            positions[event.command] := written;
            IF event.bumps_epoch THEN
                UPDATE authority SET epoch = written;
            END IF;
        END IF;
    END LOOP;

    transaction := numbered::text::bigint;
    FOREACH answer IN ARRAY answers LOOP
        IF outcomes[answer.command] = 'ok' THEN
            INSERT INTO idempotency (surface_id, principal_id, key, request_hash, status, body, transaction_id, position)
            VALUES (commands[answer.command].surface_id, commands[answer.command].principal_id, answer.key,
                answer.request_hash, answer.status, answer.body,
                CASE WHEN positions[answer.command] > 0 THEN numbered END,
                nullif(positions[answer.command], 0));
        END IF;
    END LOOP;
END $$
