-- The number of files in the plan of a clean that were not reported as deleted, and the first of these files.
SELECT count(*), min(e.name)
FROM event_entry e
WHERE e.table_id = %(table_id)s::uuid
    AND e.instant = moment(%(requested_time)s)
    AND e.list = 'plan-files'
    AND NOT EXISTS (
        SELECT
        FROM deleted_file d
        WHERE d.table_id = e.table_id
            AND d.requested_time = e.instant
            AND d.partition_path = regexp_replace(e.name, '(^|/)[^/]*$', '')
            AND d.file_name = regexp_replace(e.name, '^.*/', '')
        OFFSET 0
    )
