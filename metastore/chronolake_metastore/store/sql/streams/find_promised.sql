-- The file groups for which streams have reported files in pending instants that began without blocking: those that are
-- named, or all of them. Of each the latest instant, with its stream and its checkpoint; those of the latest first.
-- OFFSET 0 makes the planner look named groups up one by one, because the table grows faster than its statistics are
-- collected.
WITH buffered AS MATERIALIZED (
    SELECT of_group.*
    FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS named (partition_path, file_id)
    CROSS JOIN LATERAL (
        SELECT *
        FROM buffered_file b
        WHERE (b.file_id, b.partition_path, b.table_id) = (named.file_id, named.partition_path, %(table_id)s::uuid)
        OFFSET 0
    ) AS of_group
    WHERE NOT %(all_groups)s::boolean
    UNION ALL
    SELECT *
    FROM buffered_file b
    WHERE b.table_id = %(table_id)s::uuid AND %(all_groups)s::boolean
),
promised AS (
    SELECT DISTINCT ON (b.partition_path, b.file_id)
        b.partition_path, b.file_id, b.kind, c.stream, c.checkpoint, c.table_id, c.requested_time
    FROM buffered b
    JOIN stream_checkpoint c ON c.table_id = b.table_id AND c.requested_time = b.requested_time
    WHERE NOT c.is_blocking
    ORDER BY b.partition_path, b.file_id, b.requested_time DESC
)
SELECT
    p.partition_path, p.file_id, p.kind, p.stream, p.checkpoint, i.action, i.operation, i.state,
    micros(p.requested_time)
FROM promised p
JOIN instant i ON i.table_id = p.table_id AND i.requested_time = p.requested_time
ORDER BY p.requested_time DESC, p.partition_path, p.file_id
LIMIT %(limit)s
