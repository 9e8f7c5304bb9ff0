-- Save tables in their present state. Rows whose name changes are deleted first: one table may take the name that another
-- one gives up. The count makes PostgreSQL delete them before it inserts the first row.
WITH saved AS MATERIALIZED (
    SELECT *
    FROM unnest(
        %(table_id)s::uuid[], %(namespace)s::text[], %(name)s::text[], %(definition)s::text[],
        %(created_at)s::bigint[], %(dropped_at)s::bigint[], %(cleaned_before)s::bigint[],
        %(earliest_commit_to_retain)s::bigint[]
    ) WITH ORDINALITY AS saved (
        table_id, namespace, name, definition, created_at, dropped_at, cleaned_before, earliest_commit_to_retain, ordinal
    )
),
renamed AS (
    DELETE FROM lake_table t
    USING saved
    WHERE t.table_id = saved.table_id AND (t.namespace, t.name) <> (saved.namespace, saved.name)
    RETURNING t.table_id
)
INSERT INTO lake_table (
    table_id, namespace, name, definition, created_at, dropped_at, cleaned_before, earliest_commit_to_retain
)
SELECT
    table_id, namespace, name, definition::jsonb, moment(created_at), moment(dropped_at), moment(cleaned_before),
    moment(earliest_commit_to_retain)
FROM saved
WHERE (SELECT count(*) FROM renamed) >= 0
-- Dropped tables come first, because they give their names up too.
ORDER BY dropped_at IS NULL, ordinal
ON CONFLICT ON CONSTRAINT lake_table_id_unique DO UPDATE
SET
    definition = excluded.definition,
    dropped_at = excluded.dropped_at,
    cleaned_before = excluded.cleaned_before,
    earliest_commit_to_retain = excluded.earliest_commit_to_retain
