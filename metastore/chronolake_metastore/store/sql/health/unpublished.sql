-- The first live tables that are not published as they are: paused, or a server has failed.
SELECT
    t.namespace || '.' || t.name,
    CASE WHEN p.paused_version IS NOT NULL THEN 'paused' ELSE 'failing' END
FROM publication p
JOIN lake_table t ON t.table_id = p.table_id
WHERE t.dropped_at IS NULL
    AND (p.paused_version IS NOT NULL OR p.failure IS NOT NULL)
    AND t.definition -> 'properties' ->> 'hudi.publish' IS DISTINCT FROM 'false'
ORDER BY 1
LIMIT %(limit)s
