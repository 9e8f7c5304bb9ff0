-- For each name that tables gave up by a rename: the present name of the last of these tables. There is none if that table
-- was dropped, or if a later holder of the name was dropped. The clock of a table that gets a name continues after the
-- times of the former holders, so the times at which they gave the name up are in order.
SELECT named.name, t.namespace || '.' || t.name
FROM unnest(%(names)s::text[]) AS named (name)
CROSS JOIN LATERAL (
    SELECT e.table_id, e.time
    FROM event e
    WHERE e.type = 'TableAltered'
        AND e.payload ->> 'new_name' IS NOT NULL
        AND (e.payload ->> 'name') COLLATE "C" = named.name
    ORDER BY e.transaction_id DESC, e.position DESC
    LIMIT 1
) AS renamed
JOIN lake_table t ON t.table_id = renamed.table_id AND t.dropped_at IS NULL
WHERE named.name <> t.namespace || '.' || t.name
    AND NOT EXISTS (
        SELECT FROM lake_table dropped
        WHERE dropped.namespace = split_part(named.name, '.', 1)
            AND dropped.name = split_part(named.name, '.', 2)
            AND dropped.dropped_at > renamed.time
    )
