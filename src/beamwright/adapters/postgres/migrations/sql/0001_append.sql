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
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    current_epoch bigint;
    head integer;
    written bigint[];
    next_written integer := 0;
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

    -- Nothing below can be overtaken: whoever wants to change what is checked here waits for our locks.
    SELECT epoch INTO current_epoch FROM authority;
    FOR i IN 1 .. cardinality(epochs) LOOP
        IF epochs[i] <> current_epoch THEN
            outcomes[i] := 'epoch';
        END IF;
    END LOOP;

    FOR i IN 1 .. cardinality(seen_command) LOOP
        SELECT version INTO head FROM events
        WHERE stream_type = seen_type[i] AND stream_id = seen_id[i] ORDER BY version DESC LIMIT 1;
        IF coalesce(head, 0) <> seen_version[i] THEN
            outcomes[seen_command[i]] := 'race';
        END IF;
    END LOOP;

    FOR i IN 1 .. cardinality(searched_command) LOOP
        PERFORM FROM events
        WHERE (transaction_id, position) > (searched_transaction[i]::xid8, searched_position[i])
            AND stream_type = searched_type[i] LIMIT 1;
        IF FOUND THEN
            outcomes[searched_command[i]] := 'race';
        END IF;
    END LOOP;

    FOR i IN 1 .. cardinality(answer_command) LOOP
        PERFORM FROM idempotency WHERE surface_id = surface_ids[answer_command[i]]
            AND principal_id = principal_ids[answer_command[i]] AND key = answer_key[i];
        IF FOUND THEN
            outcomes[answer_command[i]] := 'answered';
        END IF;
    END LOOP;

    FOR i IN 1 .. cardinality(claim_command) LOOP
        IF outcomes[claim_command[i]] = 'ok' THEN
            PERFORM FROM claims WHERE kind = claim_kind[i] AND key = claim_key[i];
            IF FOUND THEN
                outcomes[claim_command[i]] := 'claim';
                details[claim_command[i]] := i - 1;
            END IF;
        END IF;
    END LOOP;

    FOR i IN 1 .. cardinality(released_command) LOOP
        IF outcomes[released_command[i]] = 'ok' THEN
            DELETE FROM claims WHERE kind = released_kind[i] AND key = released_key[i];
        END IF;
    END LOOP;
    FOR i IN 1 .. cardinality(claim_command) LOOP
        IF outcomes[claim_command[i]] = 'ok' THEN
            INSERT INTO claims (kind, key, stream_type, stream_id)
            VALUES (claim_kind[i], claim_key[i], claim_type[i], claim_id[i]);
        END IF;
    END LOOP;

    IF cardinality(event_command) > 0 THEN
        WITH inserted AS (
            INSERT INTO events (event_id, stream_type, stream_id, version, event_type, schema_version, payload,
                principal_id, command_name, surface_id, correlation_id, causation_id, occurred_at)
            SELECT g.event_id, g.stream_type, g.stream_id, g.version, g.event_type, g.schema_version, g.payload::json,
                principal_ids[g.command], command_names[g.command], surface_ids[g.command],
                correlation_ids[g.command], causation_ids[g.command], g.occurred_at
            FROM unnest(event_command, event_ids, stream_types, stream_ids, versions, event_types,
                schema_versions, payloads, occurred_ats)
                AS g (command, event_id, stream_type, stream_id, version, event_type, schema_version, payload,
                    occurred_at)
            WHERE outcomes[g.command] = 'ok'
            RETURNING position
        )
        SELECT array_agg(position ORDER BY position) INTO written FROM inserted;
        -- Rows are inserted, and so numbered, in the order they were given.
        FOR i IN 1 .. cardinality(event_command) LOOP
            IF outcomes[event_command[i]] = 'ok' THEN
                next_written := next_written + 1;
                positions[event_command[i]] := written[next_written];
            END IF;
        END LOOP;
    END IF;

    FOR i IN 1 .. cardinality(bumps) LOOP
        IF bumps[i] AND positions[i] > 0 THEN
            UPDATE authority SET epoch = positions[i];
        END IF;
    END LOOP;

    transaction := pg_current_xact_id_if_assigned()::text::bigint;
    FOR i IN 1 .. cardinality(answer_command) LOOP
        IF outcomes[answer_command[i]] = 'ok' THEN
            INSERT INTO idempotency (surface_id, principal_id, key, request_hash, status, body, transaction_id, position)
            VALUES (surface_ids[answer_command[i]], principal_ids[answer_command[i]], answer_key[i], answer_hash[i],
                answer_status[i], answer_body[i],
                CASE WHEN positions[answer_command[i]] > 0 THEN pg_current_xact_id() END,
                nullif(positions[answer_command[i]], 0));
        END IF;
    END LOOP;
END $$
