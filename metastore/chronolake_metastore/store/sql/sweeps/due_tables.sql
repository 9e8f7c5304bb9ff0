-- The tables with an instant that is due for a sweep, by the grace period of each table: one index lookup per table.
SELECT
    t.table_id, t.namespace || '.' || t.name, t.definition ->> 'base_path', t.definition -> 'properties',
    t.definition ->> 'tick', grace.seconds
FROM lake_table t
CROSS JOIN LATERAL (
    SELECT coalesce((t.definition -> 'properties' ->> %(grace_property)s::text)::bigint, %(grace_seconds)s) AS seconds
) AS grace
CROSS JOIN (SELECT steady_us() AS us) AS steady
WHERE t.dropped_at IS NULL
    AND t.table_id <> ALL (%(left_out)s::uuid[])
    AND EXISTS (
        SELECT
        FROM instant i
        WHERE i.table_id = t.table_id
            AND i.state IN ('completed', 'rolled_back')
            AND i.grace_began_at <= moment(steady.us - grace.seconds * 1000000)
            AND i.grace_began_at + i.lease_seconds * interval '1 second' <= moment(steady.us)
    )
ORDER BY t.table_id
LIMIT %(limit)s
