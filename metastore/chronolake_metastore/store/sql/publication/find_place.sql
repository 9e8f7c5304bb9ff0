SELECT t.table_id, t.namespace || '.' || t.name, t.definition ->> 'base_path', t.definition -> 'properties',
    t.definition ->> 'tick'
FROM lake_table t
WHERE t.table_id = %(table_id)s AND t.dropped_at IS NULL
