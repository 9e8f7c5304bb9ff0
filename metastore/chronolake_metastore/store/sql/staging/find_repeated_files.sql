-- A file that was staged twice, and a file group with two staged base files, if there are such.
WITH staged AS MATERIALIZED (
    SELECT w.partition_path, w.file_id, w.file_name, w.kind
    FROM lake_table t
    JOIN write_stat w ON w.table_id = t.table_id AND w.version = ANY (%(versions)s::bigint[])
    WHERE t.namespace = %(namespace)s AND t.name = %(name)s AND t.dropped_at IS NULL
)
(
    SELECT 'file', partition_path, file_name
    FROM staged
    GROUP BY partition_path, file_name
    HAVING count(*) > 1
    LIMIT 1
)
UNION ALL
(
    SELECT 'base file of a group', partition_path, file_id
    FROM staged
    WHERE kind = 'base'
    GROUP BY partition_path, file_id
    HAVING count(*) > 1
    LIMIT 1
)
