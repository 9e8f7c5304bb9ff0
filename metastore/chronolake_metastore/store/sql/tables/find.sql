-- The named tables, read under their locks: they may have changed since their names were looked up.
SELECT t.table_id, t.definition::text, micros(t.created_at), micros(t.cleaned_before),
    micros(t.earliest_commit_to_retain)
FROM unnest(%(namespaces)s::text[], %(tables)s::text[]) AS named (namespace, name)
CROSS JOIN LATERAL (
    SELECT *
    FROM lake_table live
    WHERE live.namespace = named.namespace AND live.name = named.name AND live.dropped_at IS NULL
    OFFSET 0
) AS t
