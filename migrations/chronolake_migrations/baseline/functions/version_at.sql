-- The version of a table's last event up to a place in the order across tables; 0 if there is none. The order across
-- tables is that of the table's versions (clocks/lock_table_names.sql), so a binary search finds it: about as many look-ups by
-- the index as the number of events has binary digits, however many events are after the place. The last event is looked up
-- first, because most places are after it. The search goes back to the version from which on the database has all events.
CREATE FUNCTION chronolake.version_at(of_table uuid, in_transaction xid8, at_position bigint)
    RETURNS bigint
    LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH RECURSIVE search (low, middle, high) AS (
        SELECT coalesce(f.version, 1) - 1, c.version, c.version
        FROM chronolake.clock c
        LEFT JOIN chronolake.first_event f ON f.table_id = c.table_id
        WHERE c.table_id = of_table
        UNION ALL
        SELECT narrowed.low, (narrowed.low + narrowed.high + 1) / 2, narrowed.high
        FROM (
            SELECT
                CASE WHEN probe.is_up_to THEN probe.middle ELSE probe.low END,
                CASE WHEN probe.is_up_to THEN probe.high ELSE probe.middle - 1 END
            FROM (
                SELECT
                    search.low,
                    search.high,
                    search.middle,
                    (e.transaction_id, e.position) <= (in_transaction, at_position) AS is_up_to
                FROM search
                JOIN chronolake.event e ON e.table_id = of_table AND e.version = search.middle
                WHERE search.low < search.high
            ) AS probe
        ) AS narrowed (low, high)
    )
    SELECT search.low
    FROM search
    WHERE search.low = search.high;
END;

COMMENT ON FUNCTION chronolake.version_at(uuid, xid8, bigint) IS
    'The version of a table''s last event up to a place in the order across tables; 0 if there is none.';
