-- The changes of file groups that other instants have completed since one was requested, but for table services. Those
-- that a compaction has superseded are among them, which find_concurrent.sql leaves out.
SELECT DISTINCT
    f.table_id, f.partition_path, f.file_id, f.kind, i.action, i.operation, i.state, micros(f.requested_time),
    micros(f.completion_time), NULL::bigint
FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS n (partition_path, file_id)
CROSS JOIN LATERAL (
    SELECT *
    FROM file f
    WHERE (f.table_id, f.partition_path, f.file_id) = (%(table_id)s::uuid, n.partition_path, n.file_id)
        AND f.completion_time > moment(%(requested_time)s)
    OFFSET 0
) AS f
JOIN instant i ON i.table_id = f.table_id AND i.requested_time = f.requested_time
WHERE i.operation NOT IN ('compact', 'log_compact', 'cluster')
