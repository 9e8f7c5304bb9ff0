-- The version of the first event of each table at or after a time, or the next one if there is none. Times increase with
-- versions, so a binary search finds it. It begins where no event was dropped.
WITH RECURSIVE search (table_id, since, low, high) AS (
    SELECT c.table_id, moment(named.since), coalesce(f.dropped_before, 1), c.version + 1
    FROM unnest(%(table_ids)s::uuid[], %(times)s::bigint[]) AS named (table_id, since)
    JOIN clock c ON c.table_id = named.table_id
    LEFT JOIN first_event f ON f.table_id = c.table_id
    UNION ALL
    SELECT
        s.table_id,
        s.since,
        CASE WHEN e.time < s.since THEN e.version + 1 ELSE s.low END,
        CASE WHEN e.time < s.since THEN s.high ELSE e.version END
    FROM search s
    JOIN event e ON e.table_id = s.table_id AND e.version = (s.low + s.high) / 2
    WHERE s.low < s.high
)
SELECT table_id, low FROM search WHERE low = high
