-- The tables whose log is ahead of their publication, and those that are to be hidden because it is off. One look at all
-- tables: only when a publisher starts, and now and then.
SELECT t.table_id
FROM lake_table t
JOIN clock c ON c.table_id = t.table_id
LEFT JOIN publication p ON p.table_id = t.table_id
WHERE t.dropped_at IS NULL
    AND (
        c.version > coalesce(p.published_version, 0)
        OR (p.hidden_at IS NULL AND t.definition -> 'properties' ->> 'hudi.publish' = 'false')
    )
