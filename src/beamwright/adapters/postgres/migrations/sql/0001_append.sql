-- Lock, verify, write: one call appends several independent commands, each of them whole or not at all.
-- Outcome of a command: 'ok', 'race', 'epoch', 'answered' or 'claim' (with the index of the taken claim).
-- The caller passes lock keys in ascending order and never puts two commands that touch one stream in a call.
CREATE FUNCTION append_commands(
    lock_keys bigint[], lock_shared boolean[],
    epochs bigint[], bumps boolean[],
    principal_ids uuid[], command_names text[], surface_ids uuid[], correlation_ids text[], causation_ids uuid[],
    seen_command integer[], seen_type text[], seen_id uuid[], seen_version integer[],
    searched_command integer[], searched_type text[], searched_transaction text[], searched_position bigint[],
    claim_command integer[], claim_kind text[], claim_key text[], claim_type text[], claim_id uuid[],
    released_command integer[], released_kind text[], released_key text[],
    event_command integer[], event_ids uuid[], stream_types text[], stream_ids uuid[], versions integer[],
    event_types text[], schema_versions integer[], payloads text[], occurred_ats timestamptz[],
    answer_command integer[], answer_key text[], answer_hash bytea[], answer_status integer[], answer_body text[],
    OUT outcomes text[], OUT details integer[], OUT positions bigint[], OUT transaction bigint
) LANGUAGE plpgsql AS $$
DECLARE
    found record;
    current_epoch bigint;
BEGIN
    outcomes := array_fill('ok'::text, ARRAY[cardinality(command_names)]);
    details := array_fill(0, ARRAY[cardinality(command_names)]);
    positions := array_fill(0::bigint, ARRAY[cardinality(command_names)]);

    FOR i IN 1 .. cardinality(lock_keys) LOOP
        IF lock_shared[i] THEN
            PERFORM pg_advisory_xact_lock_shared(lock_keys[i]);
        ELSE
            PERFORM pg_advisory_xact_lock(lock_keys[i]);
        END IF;
    END LOOP;

    SELECT epoch INTO current_epoch FROM authority;
    FOR i IN 1 .. cardinality(epochs) LOOP
        IF epochs[i] <> current_epoch THEN
            outcomes[i] := 'epoch';
        END IF;
    END LOOP;

    FOR found IN
        SELECT s.command FROM unnest(seen_command, seen_type, seen_id, seen_version) AS s (command, type, id, version)
        WHERE s.version <> coalesce((
            SELECT e.version FROM events e WHERE e.stream_type = s.type AND e.stream_id = s.id
            ORDER BY e.version DESC LIMIT 1), 0)
    LOOP
        outcomes[found.command] := 'race';
    END LOOP;

    IF cardinality(searched_command) > 0 THEN
        FOR found IN
            SELECT s.command
            FROM unnest(searched_command, searched_type, searched_transaction, searched_position)
                AS s (command, type, transaction, position)
            WHERE EXISTS (
                SELECT FROM events e
                WHERE (e.transaction_id, e.position) > (s.transaction::xid8, s.position) AND e.stream_type = s.type)
        LOOP
            outcomes[found.command] := 'race';
        END LOOP;
    END IF;

    IF cardinality(answer_command) > 0 THEN
        FOR found IN
            SELECT a.command FROM unnest(answer_command, answer_key) AS a (command, key)
            JOIN idempotency i ON i.surface_id = surface_ids[a.command]
                AND i.principal_id = principal_ids[a.command] AND i.key = a.key
        LOOP
            outcomes[found.command] := 'answered';
        END LOOP;
    END IF;

    IF cardinality(claim_command) > 0 THEN
        FOR found IN
            SELECT n.command, n.ordinal
            FROM unnest(claim_command, claim_kind, claim_key) WITH ORDINALITY AS n (command, kind, key, ordinal)
            JOIN claims c ON c.kind = n.kind AND c.key = n.key
        LOOP
            IF outcomes[found.command] = 'ok' THEN
                outcomes[found.command] := 'claim';
                details[found.command] := found.ordinal - 1;
            END IF;
        END LOOP;
    END IF;

    IF cardinality(released_command) > 0 THEN
        DELETE FROM claims c USING unnest(released_command, released_kind, released_key) AS r (command, kind, key)
        WHERE c.kind = r.kind AND c.key = r.key AND outcomes[r.command] = 'ok';
    END IF;
    IF cardinality(claim_command) > 0 THEN
        INSERT INTO claims (kind, key, stream_type, stream_id)
        SELECT n.kind, n.key, n.type, n.id
        FROM unnest(claim_command, claim_kind, claim_key, claim_type, claim_id) AS n (command, kind, key, type, id)
        WHERE outcomes[n.command] = 'ok';
    END IF;

    FOR found IN
        WITH given AS MATERIALIZED (
            SELECT * FROM unnest(event_command, event_ids, stream_types, stream_ids, versions, event_types,
                schema_versions, payloads, occurred_ats)
                AS g (command, event_id, stream_type, stream_id, version, event_type, schema_version, payload,
                    occurred_at)
            WHERE outcomes[g.command] = 'ok'
        ), inserted AS (
            INSERT INTO events (event_id, stream_type, stream_id, version, event_type, schema_version, payload,
                principal_id, command_name, surface_id, correlation_id, causation_id, occurred_at)
            SELECT g.event_id, g.stream_type, g.stream_id, g.version, g.event_type, g.schema_version, g.payload::json,
                principal_ids[g.command], command_names[g.command], surface_ids[g.command],
                correlation_ids[g.command], causation_ids[g.command], g.occurred_at
            FROM given g
            RETURNING event_id, position
        )
        SELECT g.command, max(i.position) AS position
        FROM inserted i JOIN given g USING (event_id) GROUP BY g.command
    LOOP
        positions[found.command] := found.position;
        IF bumps[found.command] THEN
            UPDATE authority SET epoch = found.position;
        END IF;
    END LOOP;

    transaction := pg_current_xact_id_if_assigned()::text::bigint;
    IF cardinality(answer_command) > 0 THEN
        INSERT INTO idempotency (surface_id, principal_id, key, request_hash, status, body, transaction_id, position)
        SELECT surface_ids[a.command], principal_ids[a.command], a.key, a.hash, a.status, a.body,
            CASE WHEN positions[a.command] > 0 THEN pg_current_xact_id() END, nullif(positions[a.command], 0)
        FROM unnest(answer_command, answer_key, answer_hash, answer_status, answer_body)
            AS a (command, key, hash, status, body)
        WHERE outcomes[a.command] = 'ok';
    END IF;
END $$
