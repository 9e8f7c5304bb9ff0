-- The tables whose folders overlap with a folder, live tables first, and dropped ones unless another table took their
-- folder over; and whether files may be there: of the table, or of those whose folders it took over. A folder without a key
-- is left out: it cannot be compared, and as a range it would overlap with all.
SELECT
    t.table_id, t.namespace || '.' || t.name, t.definition ->> 'base_path', t.dropped_at IS NOT NULL,
    EXISTS (
        WITH RECURSIVE former AS (
            SELECT t.table_id
            UNION
            SELECT taken.table_id FROM base_path taken JOIN former ON taken.taken_by = former.table_id
        )
        SELECT FROM file f JOIN former USING (table_id)
    )
FROM base_path b
JOIN lake_table t ON t.table_id = b.table_id
WHERE b.taken_by IS NULL AND b.key IS NOT NULL AND folder(b.key) && folder(%(key)s::text)
ORDER BY t.dropped_at IS NOT NULL, b.key, t.table_id
LIMIT %(limit)s
