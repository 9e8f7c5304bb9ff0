-- The version of the last event of a table before a time; 0 if there is none. Times increase with versions. The search begins
-- at the first event that PostgreSQL has.
WITH RECURSIVE search (low, high) AS (
    SELECT %(first_version)s::bigint - 1, c.version
    FROM clock c
    WHERE c.table_id = %(table_id)s
    UNION ALL
    SELECT
        CASE WHEN e.time < moment(%(time)s) THEN e.version ELSE s.low END,
        CASE WHEN e.time < moment(%(time)s) THEN s.high ELSE e.version - 1 END
    FROM search s
    JOIN event e ON e.table_id = %(table_id)s AND e.version = (s.low + s.high + 1) / 2
    WHERE s.low < s.high
)
SELECT low FROM search WHERE low = high
