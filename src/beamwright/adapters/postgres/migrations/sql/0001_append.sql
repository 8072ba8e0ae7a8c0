CREATE TYPE append_lock AS (key bigint, shared boolean)
---
CREATE TYPE append_command AS (
    epoch bigint, principal_id uuid, command_name text, surface_id uuid, correlation_id text,
    causation_id uuid)
---
CREATE TYPE append_seen AS (command integer, stream_type text, stream_id uuid, version integer)
---
CREATE TYPE append_searched AS (command integer, stream_type text, transaction_id text, position bigint)
---
CREATE TYPE append_claim AS (command integer, kind text, key text, stream_type text, stream_id uuid)
---
CREATE TYPE append_release AS (command integer, kind text, key text)
---
CREATE TYPE append_event AS (
    command integer, event_id uuid, stream_type text, stream_id uuid, version integer, event_type text,
    schema_version integer, payload text, occurred_at timestamptz, bumps_epoch boolean)
---
CREATE TYPE append_answer AS (command integer, key text, request_hash bytea, status integer, body text)
---
-- Lock, verify, write: one call appends several independent commands, each of them whole or not at all.
-- Outcome of a command: 'ok', 'race', 'epoch', 'answered' or 'claim' (with the index of the taken claim).
-- The caller passes locks in ascending order of key and never puts two commands that touch one stream in a call.
CREATE FUNCTION append_commands(
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
            RETURNING position INTO written;
            positions[event.command] := written;
            IF event.bumps_epoch THEN
                UPDATE authority SET epoch = written;
            END IF;
        END IF;
    END LOOP;

    transaction := pg_current_xact_id_if_assigned()::text::bigint;
    FOREACH answer IN ARRAY answers LOOP
        IF outcomes[answer.command] = 'ok' THEN
            INSERT INTO idempotency (surface_id, principal_id, key, request_hash, status, body, transaction_id, position)
            VALUES (commands[answer.command].surface_id, commands[answer.command].principal_id, answer.key,
                answer.request_hash, answer.status, answer.body,
                CASE WHEN positions[answer.command] > 0 THEN pg_current_xact_id() END,
                nullif(positions[answer.command], 0));
        END IF;
    END LOOP;
END $$
