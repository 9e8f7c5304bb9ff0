-- The files in the latest slices of file groups that are not named, the one that completed last before the others. Of an
-- instant that has left the database, the action is the usual one of the table's writers.
SELECT
    f.partition_path, f.file_id, f.kind,
    coalesce(
        i.action, CASE t.definition ->> 'type' WHEN 'merge_on_read' THEN 'deltacommit' ELSE 'commit' END
    ),
    coalesce(i.operation, 'unknown'), coalesce(i.state, 'completed'), micros(f.requested_time),
    micros(f.completion_time)
FROM file f
JOIN lake_table t ON t.table_id = f.table_id
LEFT JOIN instant i ON i.table_id = f.table_id AND i.requested_time = f.requested_time
WHERE f.table_id = %(table_id)s
    AND f.superseded_at IS NULL
    AND (f.partition_path, f.file_id) NOT IN (
        SELECT named.partition_path, named.file_id
        FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS named (partition_path, file_id)
    )
ORDER BY f.completion_time DESC
LIMIT %(limit)s
