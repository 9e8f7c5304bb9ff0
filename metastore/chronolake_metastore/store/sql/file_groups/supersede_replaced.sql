-- Supersede the files of replaced file groups at the time of the replacement, unless a base file superseded them before.
UPDATE file f
SET superseded_at = greatest(r.replaced_at, f.completion_time)
FROM unnest(%(table_id)s::uuid[], %(requested_time)s::bigint[]) AS replaced (table_id, requested_time)
CROSS JOIN LATERAL (
    SELECT *
    FROM event_entry n
    WHERE n.table_id = replaced.table_id
        AND n.instant = moment(replaced.requested_time)
        AND n.list = 'replaced-file-groups'
    OFFSET 0
) AS e
JOIN replaced_group r ON r.table_id = e.table_id AND r.partition_path = e.partition_path AND r.file_id = e.name
WHERE f.table_id = r.table_id
    AND f.partition_path = r.partition_path
    AND f.file_id = r.file_id
    AND r.withdrawn_at IS NULL
    AND (f.superseded_at IS NULL OR f.superseded_at > greatest(r.replaced_at, f.completion_time))
