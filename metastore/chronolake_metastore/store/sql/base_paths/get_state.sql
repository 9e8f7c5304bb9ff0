-- The state of a table's base path: the name of the table, whether it is dropped, whether its folder can be compared,
-- which table took the folder over, and a table whose folder overlaps. Folders overlap only if one of the two tables was
-- created before base paths were checked; such a table does not count once it is dropped. A folder without a key cannot
-- be compared: as a range it would overlap with all.
SELECT
    t.namespace || '.' || t.name,
    t.dropped_at IS NOT NULL,
    b.key IS NOT NULL,
    (SELECT taker.namespace || '.' || taker.name FROM lake_table taker WHERE taker.table_id = b.taken_by),
    (
        SELECT other.namespace || '.' || other.name
        FROM base_path near
        JOIN lake_table other ON other.table_id = near.table_id
        WHERE near.taken_by IS NULL
            AND near.key IS NOT NULL
            AND folder(near.key) && folder(b.key)
            AND near.table_id <> t.table_id
            AND (other.dropped_at IS NULL OR near.is_checked)
        ORDER BY other.dropped_at IS NOT NULL, near.key
        LIMIT 1
    )
FROM lake_table t
LEFT JOIN base_path b ON b.table_id = t.table_id
WHERE t.table_id = %(table_id)s
