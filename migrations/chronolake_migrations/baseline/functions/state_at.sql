-- The tables at a position of the log, which a cursor over all tables names; null is its present end. It runs with the rights of its owner, so a caller
-- needs no rights to the projections. The search_path is fixed, so that of a caller has no effect on it. Without pg_temp at its
-- end, PostgreSQL looks for types in the temporary schema first, and a check of a caller's domain would run as the owner.
CREATE FUNCTION chronolake.state_at("position" text)
    RETURNS TABLE (
        table_name text,
        table_id uuid,
        dropped_at timestamptz,
        version bigint,
        as_of timestamptz,
        as_of_digits text,
        schema_version int,
        tick_us bigint
    )
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    place jsonb;
    in_transaction xid8;
    at_position bigint;
    is_unknown boolean;
BEGIN
    IF "position" IS NULL THEN
        SELECT e.transaction_id, e."position" INTO in_transaction, at_position
        FROM chronolake.event e
        WHERE e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY e.transaction_id DESC, e."position" DESC
        LIMIT 1;
    ELSE
        BEGIN
            place := convert_from(
                decode(rpad(translate("position", '-_', '+/'), (length("position") + 3) / 4 * 4, '='), 'base64'), 'UTF8'
            )::jsonb;
            IF jsonb_array_length(place) = 2 THEN
                in_transaction := (place ->> 0)::xid8;
                at_position := (place ->> 1)::bigint;
            END IF;
        EXCEPTION
            WHEN data_exception THEN
                in_transaction := NULL;
        END;
    END IF;
    IF in_transaction IS NULL OR at_position IS NULL THEN
        RAISE EXCEPTION 'this is no position of the log of all tables: %', "position"
            USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Give the position of a cut, or a cursor over all tables.';
    END IF;
    -- The beginning of the log, at which there was no table.
    IF (in_transaction, at_position) = ('0'::xid8, 0::bigint) THEN
        RETURN;
    END IF;
    SELECT bool_or(NOT s.is_known) INTO is_unknown
    FROM chronolake.lake_table t
    CROSS JOIN LATERAL chronolake.table_state(t.table_id, in_transaction, at_position) s;
    IF is_unknown THEN
        RAISE EXCEPTION 'events that tell the state at this position have left PostgreSQL'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Find the last event of each table in the archive of the log (chronolake-metastore audit duckdb).';
    END IF;
    IF NOT EXISTS (
        SELECT
        FROM chronolake.event e
        WHERE e.transaction_id = in_transaction AND e."position" = at_position
            -- Otherwise an open transaction may still append an event before it.
            AND e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
    ) THEN
        RAISE EXCEPTION 'this log has no event at the position %', "position"
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Is it a position of another metastore?';
    END IF;
    RETURN QUERY
    SELECT
        t.namespace || '.' || t.name,
        t.table_id,
        t.dropped_at,
        s.version,
        s.as_of,
        chronolake.instant_time(s.as_of, c.tick_us),
        s.schema_version,
        c.tick_us
    FROM chronolake.lake_table t
    JOIN chronolake.clock c ON c.table_id = t.table_id
    CROSS JOIN LATERAL chronolake.table_state(t.table_id, in_transaction, at_position) s
    WHERE t.dropped_at IS NULL OR t.dropped_at > s.time
    ORDER BY 1, t.created_at;
END;
$$;

COMMENT ON FUNCTION chronolake.state_at(text) IS
    'The tables that existed at a position of the log, also those that were dropped later, each with its state there.';
