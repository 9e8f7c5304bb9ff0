-- The pending plans of table services of some tables: the first ones of each, and the count of all of it. A clean without a
-- plan is one that its writer runs by hand.
SELECT
    t.table_id, p.action, micros(p.requested_time), p.state, p.writer, p.file_groups,
    p.executions, micros(p.lease_expires_at), p.count
FROM unnest(%(table_ids)s::uuid[]) AS t (table_id)
CROSS JOIN LATERAL (
    SELECT
        i.action, i.requested_time, i.state, i.writer, i.lease_expires_at, i.executions::text AS executions,
        coalesce((i.plan -> 'file_groups' ->> 'count')::bigint, 0) AS file_groups,
        count(*) OVER () AS count
    FROM instant i
    WHERE i.table_id = t.table_id
        AND i.state IN ('requested', 'inflight')
        AND i.action IN ('compaction', 'logcompaction', 'clustering', 'clean')
        AND i.plan IS NOT NULL
    ORDER BY i.requested_time
    LIMIT %(limit)s
) AS p
ORDER BY t.table_id, p.requested_time
