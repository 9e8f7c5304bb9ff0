-- The files of the slices that the named file groups had as of a completion time.
SELECT {file}
FROM file f
JOIN unnest(CAST(:partition_paths AS text[]), CAST(:file_ids AS text[])) AS named (partition_path, file_id)
    USING (partition_path, file_id)
WHERE f.table_id = :table_id
    AND f.live_from <= moment(:as_of)
    AND (f.superseded_at IS NULL OR f.superseded_at > moment(:as_of))
ORDER BY f.partition_path, f.file_id, f.kind, f.completion_time, f.file_name
