-- How many files of a clean's plan were not reported as deleted, and the first of them.
SELECT count(*), min(named.path)
FROM instant i
CROSS JOIN LATERAL jsonb_array_elements_text(i.plan -> 'files_to_delete') AS named (path)
WHERE i.table_id = %(table_id)s::uuid
    AND i.requested_time = moment(%(requested_time)s)
    AND NOT EXISTS (
        SELECT
        FROM deleted_file d
        WHERE d.table_id = i.table_id
            AND d.requested_time = i.requested_time
            AND d.partition_path = regexp_replace(named.path, '(^|/)[^/]*$', '')
            AND d.file_name = regexp_replace(named.path, '^.*/', '')
        OFFSET 0
    )
