-- The instants that leave when those of some tables are announced, with those that were announced before: ranges of requested
-- times by table. Of those that stayed when others left, the ones that may leave now (stays.sql) are ranges of their own.
WITH leaving AS MATERIALIZED (
    SELECT
        f.table_id,
        coalesce(f.instants_dropped_before, moment(0)) AS since,
        greatest(moment(given.until), f.instants_from) AS until
    FROM first_event f
    LEFT JOIN unnest(%(table_ids)s::uuid[], %(times)s::bigint[]) AS given (table_id, until) ON given.table_id = f.table_id
    WHERE given.table_id IS NOT NULL OR f.instants_dropped_before IS DISTINCT FROM f.instants_from
)
SELECT l.table_id, micros(l.since), micros(l.until) - 1
FROM leaving l
UNION ALL
SELECT i.table_id, micros(i.requested_time), micros(i.requested_time)
FROM leaving l
JOIN instant i ON i.table_id = l.table_id AND i.requested_time < l.since
WHERE i.action <> 'replacecommit' OR coalesce(i.completion_time, i.undone_completion_time) IS NULL
