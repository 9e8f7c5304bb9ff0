-- The first live tables after a name that have a name in one of the ranges, in the order of names. Each range is read by
-- the index of names, from its beginning: tables that a caller may not read cost nothing, however many there are.
SELECT named.table_id
FROM {ranges}
CROSS JOIN LATERAL (
    SELECT t.table_id, t.namespace, t.name
    FROM lake_table t
    WHERE t.dropped_at IS NULL
        AND {in_range}
        AND (t.namespace, t.name) > (%(after_namespace)s, %(after_name)s)
    ORDER BY t.namespace, t.name
    LIMIT %(limit)s
) AS named
ORDER BY named.namespace, named.name
LIMIT %(limit)s
