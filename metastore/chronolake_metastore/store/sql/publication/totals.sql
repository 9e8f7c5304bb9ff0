-- For metrics: the oldest event that is not published of the tables that a publisher has begun, and the paused tables. As in
-- publication/get, a table that was never written has no such event, unless a server has failed, and the time of one that is
-- only in the archive is an earlier one.
SELECT
    micros(min(coalesce(e.time, p.published_completion)) FILTER (WHERE p.paused_version IS NULL AND behind.is_behind)),
    count(*) FILTER (WHERE p.paused_version IS NOT NULL)
FROM publication p
JOIN lake_table t ON t.table_id = p.table_id AND t.dropped_at IS NULL
JOIN clock c ON c.table_id = p.table_id
CROSS JOIN LATERAL (
    SELECT c.version > p.published_version
        AND (
            p.published_version > 0
            OR p.failure IS NOT NULL
            OR EXISTS (SELECT FROM file f WHERE f.table_id = p.table_id)
        ) AS is_behind
) AS behind
LEFT JOIN event e ON e.table_id = p.table_id AND e.version = p.published_version + 1
WHERE t.definition -> 'properties' ->> 'hudi.publish' IS DISTINCT FROM 'false'
