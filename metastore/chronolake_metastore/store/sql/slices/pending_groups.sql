-- A page of the file groups in the plans of table services that were pending as of a time.
SELECT named.partition_path, named.file_id, micros(i.requested_time), i.action, i.operation
FROM instant i
JOIN event_entry n ON n.table_id = i.table_id AND n.instant = i.requested_time AND n.list = 'plan-file-groups'
CROSS JOIN LATERAL (SELECT n.partition_path, n.name AS file_id) AS named
WHERE i.table_id = %(table_id)s
    AND i.operation IN ('compact', 'log_compact', 'cluster')
    AND {pending}
    AND (named.partition_path, named.file_id) > (%(after_partition)s, %(after_file_id)s)
ORDER BY named.partition_path, named.file_id
LIMIT %(groups)s
