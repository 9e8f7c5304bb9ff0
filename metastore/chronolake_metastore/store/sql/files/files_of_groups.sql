-- The files in the slices of the named file groups as of a completion time.
SELECT {file}
FROM file f
JOIN unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS named (partition_path, file_id)
    USING (partition_path, file_id)
WHERE f.table_id = %(table_id)s
    AND f.live_from <= moment(%(as_of)s)
    AND (f.superseded_at IS NULL OR f.superseded_at > moment(%(as_of)s))
ORDER BY f.partition_path, f.file_id, f.kind, f.completion_time, f.file_name
