INSERT INTO lake_table (table_id, namespace, name, definition, created_at, dropped_at, cleaned_before)
SELECT
    table_id, namespace, name, definition::jsonb, moment(created_at), moment(dropped_at), moment(cleaned_before)
FROM unnest(
    %(table_id)s::uuid[], %(namespace)s::text[], %(name)s::text[], %(definition)s::text[], %(created_at)s::bigint[],
    %(dropped_at)s::bigint[], %(cleaned_before)s::bigint[]
) AS saved (table_id, namespace, name, definition, created_at, dropped_at, cleaned_before)
ON CONFLICT ON CONSTRAINT lake_table_id_unique DO UPDATE
SET definition = excluded.definition, dropped_at = excluded.dropped_at, cleaned_before = excluded.cleaned_before
