-- The dropped tables whose folders a table took over, directly or from a table that had taken them over.
WITH RECURSIVE taken AS (
    SELECT b.table_id FROM base_path b WHERE b.taken_by = %(table_id)s
    UNION
    SELECT b.table_id FROM base_path b JOIN taken t ON b.taken_by = t.table_id
)
SELECT table_id FROM taken ORDER BY table_id
