-- The live tables with their base paths, in the order of their ids.
SELECT
    t.table_id, t.namespace || '.' || t.name, t.definition ->> 'base_path', t.definition -> 'properties',
    t.definition ->> 'tick'
FROM lake_table t
WHERE t.dropped_at IS NULL AND t.table_id > %(after)s
ORDER BY t.table_id
LIMIT %(limit)s
