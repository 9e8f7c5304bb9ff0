-- The first live tables that are not published as they are: paused, or a server has failed. Where publication is off, the
-- failure is that readers still see the table.
SELECT
    t.namespace || '.' || t.name,
    CASE WHEN p.paused_version IS NOT NULL AND NOT is_off THEN 'paused' ELSE 'failing' END
FROM publication p
JOIN lake_table t ON t.table_id = p.table_id
CROSS JOIN LATERAL (
    SELECT coalesce(
        t.definition -> 'properties' ->> 'hudi.publish' = 'false',
        t.definition ->> 'tick' IS NOT DISTINCT FROM '1us'
    ) AS is_off
) AS publishes
WHERE t.dropped_at IS NULL
    AND CASE
        WHEN is_off THEN p.failure IS NOT NULL AND p.hidden_at IS NULL AND (p.published_version > 0 OR p.epoch > 0)
        ELSE p.paused_version IS NOT NULL OR p.failure IS NOT NULL
    END
ORDER BY 1
LIMIT %(limit)s
