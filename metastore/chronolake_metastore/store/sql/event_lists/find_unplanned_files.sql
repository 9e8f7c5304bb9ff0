-- Of the named files, those that are not in the plan of the instant.
SELECT n.partition_path, n.file_name
FROM unnest(%(partition_paths)s::text[], %(file_names)s::text[]) AS n (partition_path, file_name)
EXCEPT
SELECT regexp_replace(e.name, '(^|/)[^/]*$', ''), regexp_replace(e.name, '^.*/', '')
FROM event_entry e
WHERE e.table_id = %(table_id)s::uuid AND e.instant = moment(%(instant)s) AND e.list = 'plan-files'
