-- The file groups for which streams have reported files in pending instants that began without blocking: those that are
-- named, or all of them. Of each the latest instant, with its stream and its checkpoint; those of the latest first.
WITH reported AS MATERIALIZED (
    SELECT c.table_id, c.stream, c.checkpoint, c.requested_time, version.number::bigint AS version
    FROM stream_checkpoint c
    CROSS JOIN LATERAL jsonb_path_query(c.tasks, '$.*.versions[*]') AS version (number)
    WHERE c.table_id = %(table_id)s AND NOT c.is_blocking
),
promised AS (
    SELECT DISTINCT ON (w.partition_path, w.file_id)
        w.partition_path, w.file_id, w.kind, r.stream, r.checkpoint, r.table_id, r.requested_time
    FROM reported r
    JOIN write_stat w ON w.table_id = r.table_id AND w.version = r.version
    WHERE %(all_groups)s::boolean
        OR (w.partition_path, w.file_id) IN (
            SELECT named.partition_path, named.file_id
            FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS named (partition_path, file_id)
        )
    ORDER BY w.partition_path, w.file_id, r.requested_time DESC
)
SELECT
    p.partition_path, p.file_id, p.kind, p.stream, p.checkpoint, i.action, i.operation, i.state,
    micros(p.requested_time)
FROM promised p
JOIN instant i ON i.table_id = p.table_id AND i.requested_time = p.requested_time
ORDER BY p.requested_time DESC, p.partition_path, p.file_id
LIMIT %(limit)s
