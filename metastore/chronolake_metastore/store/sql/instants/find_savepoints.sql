-- The savepoints of the named tables that are not released, and the last completed write of each table.
SELECT {instant}
FROM unnest(%(namespaces)s::text[], %(tables)s::text[]) AS named (namespace, name)
JOIN lake_table t ON t.namespace = named.namespace AND t.name = named.name AND t.dropped_at IS NULL
JOIN LATERAL (
    SELECT savepoint.*
    FROM instant savepoint
    WHERE savepoint.table_id = t.table_id AND savepoint.action = 'savepoint' AND savepoint.state = 'completed'
    UNION ALL
    (
        SELECT latest.*
        FROM instant latest
        WHERE latest.table_id = t.table_id
            AND latest.completion_time IS NOT NULL
            AND latest.action IN ('commit', 'deltacommit', 'replacecommit')
        ORDER BY latest.completion_time DESC
        LIMIT 1
    )
) AS i ON true
