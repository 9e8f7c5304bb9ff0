-- Live tables: those that changed last, and as many from a random place in the order of their ids.
(
    SELECT t.table_id, t.namespace || '.' || t.name, t.definition ->> 'base_path', t.definition -> 'properties',
        t.definition ->> 'tick'
    FROM lake_table t
    JOIN clock c ON c.table_id = t.table_id
    WHERE t.dropped_at IS NULL
    ORDER BY c.last_time DESC
    LIMIT %(each)s
)
UNION ALL
(
    SELECT t.table_id, t.namespace || '.' || t.name, t.definition ->> 'base_path', t.definition -> 'properties',
        t.definition ->> 'tick'
    FROM lake_table t
    WHERE t.dropped_at IS NULL AND t.table_id > (SELECT gen_random_uuid())
    ORDER BY t.table_id
    LIMIT %(each)s
)
