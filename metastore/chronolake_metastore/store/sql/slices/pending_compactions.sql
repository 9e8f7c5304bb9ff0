-- The compactions of the named file groups that were pending as of a time.
SELECT named.partition_path, named.file_id, micros(i.requested_time)
FROM instant i
JOIN event_entry n ON n.table_id = i.table_id AND n.instant = i.requested_time AND n.list = 'plan-file-groups'
JOIN unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS named (partition_path, file_id)
    ON named.partition_path = n.partition_path AND named.file_id = n.name
WHERE i.table_id = %(table_id)s AND i.operation = 'compact' AND {pending}
