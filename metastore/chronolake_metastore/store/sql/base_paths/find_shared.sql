-- Live tables in which nothing is deleted because of their base paths, as base_paths/get_state.sql says of one: those that overlap
-- with another table's, and those that cannot be compared. Only tables of before base paths were checked can be such; two
-- of those that were are kept apart by an exclusion constraint. In a session with replay tables a projection is qualified.
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
