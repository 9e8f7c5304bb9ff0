-- The last time that any dropped table of a name has issued: a new one of that name begins behind it.
SELECT t.namespace || '.' || t.name, micros(max(c.last_time))
FROM lake_table t
JOIN clock c USING (table_id)
JOIN unnest(%(namespaces)s::text[], %(tables)s::text[]) AS named (namespace, name)
    ON t.namespace = named.namespace AND t.name = named.name
WHERE t.dropped_at IS NOT NULL
GROUP BY t.namespace, t.name
