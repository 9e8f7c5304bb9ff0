-- For each file below the folder of a table: whether it belongs to a dropped table whose folder overlaps, taken over or
-- not. It does if its name has an instant of that table, or if that table published it. The instant counts at any path,
-- because links within a folder may give a file another path. OFFSET 0 makes the planner look these up file by file.
WITH dropped AS MATERIALIZED (
    SELECT near.table_id, near.key, own.key AS own_key
    FROM base_path own
    JOIN base_path near ON starts_with(near.key, own.key) OR starts_with(own.key, near.key)
    JOIN lake_table t ON t.table_id = near.table_id
    WHERE own.table_id = %(table_id)s AND near.table_id <> own.table_id AND t.dropped_at IS NOT NULL
)
SELECT EXISTS (
    SELECT
    FROM dropped d
    WHERE EXISTS (
        SELECT
        FROM instant i
        WHERE i.table_id = d.table_id AND i.requested_time = moment(n.requested_time)
        OFFSET 0
    ) OR EXISTS (
        SELECT
        FROM file f
        WHERE f.table_id = d.table_id
            AND f.partition_path = rtrim(substr(d.own_key || n.partition_path, length(d.key) + 1), '/')
            AND f.file_id = n.file_id
            AND f.file_name = n.file_name
            AND starts_with(d.own_key || n.partition_path || '/', d.key)
        OFFSET 0
    )
)
FROM unnest(
    %(partition_paths)s::text[], %(file_names)s::text[], %(file_ids)s::text[],
    %(requested_times)s::bigint[]
) WITH ORDINALITY AS n (partition_path, file_name, file_id, requested_time, ordinal)
ORDER BY n.ordinal
