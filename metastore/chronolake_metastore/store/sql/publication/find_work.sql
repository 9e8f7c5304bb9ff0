-- The tables whose log is ahead of their publication, and those whose publication is off: they are to be hidden, or stay
-- so. It reads all tables, so it runs only when a publisher starts, and once per search interval.
SELECT t.table_id
FROM lake_table t
JOIN clock c ON c.table_id = t.table_id
LEFT JOIN publication p ON p.table_id = t.table_id
WHERE t.dropped_at IS NULL
    AND (
        c.version > coalesce(p.published_version, 0)
        OR (p.table_id IS NOT NULL AND t.definition -> 'properties' ->> 'hudi.publish' = 'false')
    )
