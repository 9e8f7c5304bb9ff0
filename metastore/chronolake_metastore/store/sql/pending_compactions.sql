-- The compactions that were pending as of a time, of the named file groups.
SELECT named.partition_path, named.file_id, micros(i.requested_time)
FROM instant i
CROSS JOIN LATERAL jsonb_to_recordset(i.plan -> 'file_groups') AS named (partition_path text, file_id text)
JOIN unnest(CAST(:partition_paths AS text[]), CAST(:file_ids AS text[])) AS wanted (partition_path, file_id)
    USING (partition_path, file_id)
WHERE i.table_id = :table_id AND i.operation = 'compact' AND {pending}
