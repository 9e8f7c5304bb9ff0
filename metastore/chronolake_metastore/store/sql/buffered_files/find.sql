-- The files in the buffers of a table's streams that a report of the named files depends on: the same files, and those of
-- their file groups if one of both is a base file. A file group has few of them in pending instants. OFFSET 0 makes the
-- planner look them up one by one: the tables grow faster than their statistics are collected.
SELECT
    b.partition_path, b.file_id, b.file_name, b.kind, micros(b.requested_time), b.version,
    w.size_bytes, w.records, w.inserts, w.updates, w.deletes, c.stream, c.checkpoint, c.is_blocking
FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[], %(file_names)s::text[], %(are_base)s::boolean[])
    AS n (partition_path, file_id, file_name, is_base)
CROSS JOIN LATERAL (
    SELECT *
    FROM buffered_file of_group
    WHERE (of_group.file_id, of_group.partition_path, of_group.table_id)
            = (n.file_id, n.partition_path, %(table_id)s::uuid)
        AND (n.is_base OR of_group.kind = 'base' OR of_group.file_name = n.file_name)
    OFFSET 0
) AS b
CROSS JOIN LATERAL (
    SELECT *
    FROM write_stat s
    WHERE (s.table_id, s.version, s.ordinal) = (b.table_id, b.version, b.ordinal)
    OFFSET 0
) AS w
CROSS JOIN LATERAL (
    SELECT *
    FROM stream_checkpoint of_instant
    WHERE (of_instant.table_id, of_instant.requested_time) = (b.table_id, b.requested_time)
    OFFSET 0
) AS c
