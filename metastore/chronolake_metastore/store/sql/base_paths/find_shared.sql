-- The live tables whose files are never deleted because of their base paths: a base path overlaps with that of another
-- table, or cannot be compared (base_paths/get_state.sql finds the same for one table). At least one of two overlapping
-- tables was created before base paths were checked: an exclusion constraint keeps checked base paths apart. Names are
-- qualified with the schema, so that replay tables of the session are not read instead.
SELECT t.namespace || '.' || t.name AS name, other.namespace || '.' || other.name AS other
FROM chronolake.base_path own
JOIN chronolake.lake_table t ON t.table_id = own.table_id AND t.dropped_at IS NULL
JOIN chronolake.base_path near
    ON near.taken_by IS NULL
    AND near.key IS NOT NULL
    AND folder(near.key) && folder(own.key)
    AND near.table_id <> own.table_id
    AND NOT (near.is_checked AND own.is_checked)
JOIN chronolake.lake_table other ON other.table_id = near.table_id AND (other.dropped_at IS NULL OR near.is_checked)
WHERE own.key IS NOT NULL AND (%(table_id)s::uuid IS NULL OR t.table_id = %(table_id)s)
UNION ALL
SELECT t.namespace || '.' || t.name, NULL
FROM chronolake.lake_table t
LEFT JOIN chronolake.base_path own ON own.table_id = t.table_id
WHERE t.dropped_at IS NULL AND own.key IS NULL AND (%(table_id)s::uuid IS NULL OR t.table_id = %(table_id)s)
ORDER BY name, other
LIMIT %(limit)s
