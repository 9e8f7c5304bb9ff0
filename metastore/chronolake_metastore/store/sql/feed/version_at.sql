-- The version of a table's last event up to a place in the order across tables; 0 if there is none. The order across
-- tables is that of the table's versions (clocks/lock_table_names.sql), so a binary search finds it: about as many look-ups by
-- the index as the number of events has binary digits, however many events are after the place. The search begins at the
-- version from which on the database has all events.
WITH RECURSIVE search (low, high) AS (
    SELECT
        coalesce(f.version, 1) - 1, c.version
    FROM clock c
    LEFT JOIN first_event f ON f.table_id = c.table_id
    WHERE c.table_id = %(table_id)s
    UNION ALL
    SELECT
        CASE WHEN probe.is_up_to THEN probe.middle ELSE probe.low END,
        CASE WHEN probe.is_up_to THEN probe.high ELSE probe.middle - 1 END
    FROM (
        SELECT
            search.low,
            search.high,
            event.version AS middle,
            (event.transaction_id, event.position) <= (%(transaction_id)s::text::xid8, %(position)s::bigint) AS is_up_to
        FROM search
        JOIN event ON event.table_id = %(table_id)s AND event.version = (search.low + search.high + 1) / 2
        WHERE search.low < search.high
    ) AS probe
)
SELECT search.low
FROM search
WHERE search.low = search.high
