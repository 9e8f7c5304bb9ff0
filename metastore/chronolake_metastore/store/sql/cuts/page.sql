-- The states of live tables at a place in the order across tables, in the order of the tables' ids. A table that did not exist
-- yet has a row without a state: a page is cut by its tables.
SELECT
    t.table_id, t.namespace || '.' || t.name, s.version, micros(s.as_of), s.schema_version, t.tick, s.is_known
FROM (
    SELECT l.table_id, l.namespace, l.name, l.definition ->> 'tick' AS tick
    FROM lake_table l
    WHERE l.dropped_at IS NULL
        AND l.table_id > %(after)s::uuid
        AND (%(namespace)s::text IS NULL OR l.namespace = %(namespace)s::text)
        AND (%(table_ids)s::uuid[] IS NULL OR l.table_id = ANY (%(table_ids)s::uuid[]))
    ORDER BY l.table_id
    LIMIT %(limit)s
) AS t
LEFT JOIN LATERAL table_state(t.table_id, %(transaction_id)s::text::xid8, %(position)s::bigint) AS s ON true
ORDER BY t.table_id
