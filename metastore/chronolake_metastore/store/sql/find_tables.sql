-- Read again under the lock: what was true when the name was looked up may not be true any more.
SELECT t.table_id, t.definition::text, micros(t.created_at)
FROM lake_table t
JOIN unnest(%(namespaces)s::text[], %(tables)s::text[]) AS named (namespace, name)
    ON t.namespace = named.namespace AND t.name = named.name
WHERE t.dropped_at IS NULL
