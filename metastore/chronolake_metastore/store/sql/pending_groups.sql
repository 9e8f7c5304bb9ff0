-- A page of the file groups in the plans of table services that were pending as of a time.
SELECT named.partition_path, named.file_id, micros(i.requested_time), i.action, i.operation
FROM instant i
CROSS JOIN LATERAL jsonb_to_recordset(i.plan -> 'file_groups') AS named (partition_path text, file_id text)
WHERE i.table_id = :table_id
    AND i.operation IN ('compact', 'log_compact', 'cluster')
    AND {pending}
    AND (named.partition_path, named.file_id) > (:after_partition, :after_file_id)
ORDER BY named.partition_path, named.file_id
LIMIT :groups
