-- Of the named file groups, those that are not in the plan of the instant.
SELECT n.partition_path, n.file_id
FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS n (partition_path, file_id)
EXCEPT
SELECT e.partition_path, e.name
FROM event_entry e
WHERE e.table_id = %(table_id)s::uuid AND e.instant = moment(%(instant)s) AND e.list = 'plan-file-groups'
ORDER BY 1, 2
