-- For names that tables gave up by a rename: what the last of these tables is called now, unless it was dropped.
SELECT named.name, t.namespace || '.' || t.name
FROM unnest(%(names)s::text[]) AS named (name)
CROSS JOIN LATERAL (
    SELECT e.table_id
    FROM event e
    WHERE e.type = 'TableAltered'
        AND e.payload ->> 'new_name' IS NOT NULL
        AND (e.payload ->> 'name') COLLATE "C" = named.name
    ORDER BY e.transaction_id DESC, e.position DESC
    LIMIT 1
) AS renamed
JOIN lake_table t ON t.table_id = renamed.table_id AND t.dropped_at IS NULL
WHERE named.name <> t.namespace || '.' || t.name
