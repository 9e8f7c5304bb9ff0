-- The first live tables after a name, of one namespace or of all, in the order of names: all, or those of {chosen}.
SELECT
    t.table_id, t.definition::text, micros(t.created_at), micros(t.cleaned_before), micros(t.earliest_commit_to_retain)
FROM lake_table t
WHERE t.dropped_at IS NULL AND (t.namespace, t.name) > (%(after_namespace)s, %(after_name)s) AND {chosen}
ORDER BY t.namespace, t.name
LIMIT %(limit)s
