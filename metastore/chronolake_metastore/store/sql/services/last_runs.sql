-- The last completed run of each service of some tables, with the files that left the latest slices when it completed. A
-- clean takes none out of them: its files are those of its plan.
SELECT
    r.table_id, r.service, micros(r.requested_time), micros(r.completion_time), r.writer,
    coalesce(r.planned_files, gone.files), CASE WHEN r.planned_files IS NULL THEN gone.size_bytes END,
    r.files, r.size_bytes
FROM unnest(%(table_ids)s::uuid[]) AS t (table_id)
CROSS JOIN (
    VALUES ('compaction', 'compact'), ('log-compaction', 'log_compact'), ('clustering', 'cluster'), ('clean', NULL)
) AS known (service, operation)
CROSS JOIN LATERAL (
    (
        SELECT
            i.table_id, known.service, i.requested_time, i.completion_time, i.writer, NULL::bigint AS planned_files,
            (i.summary ->> 'files')::bigint AS files, (i.summary ->> 'size_bytes')::bigint AS size_bytes
        FROM instant i
        WHERE i.table_id = t.table_id
            AND i.operation IN ('compact', 'log_compact', 'cluster')
            AND i.operation = known.operation
            AND i.completion_time IS NOT NULL
        ORDER BY i.completion_time DESC
        LIMIT 1
    )
    UNION ALL
    (
        SELECT
            i.table_id, known.service, i.requested_time, i.completion_time, i.writer,
            coalesce((i.plan -> 'files_to_delete' ->> 'count')::bigint, 0), 0, 0
        FROM instant i
        WHERE known.operation IS NULL
            AND i.table_id = t.table_id
            AND i.action = 'clean'
            AND i.state = 'completed'
        ORDER BY i.requested_time DESC
        LIMIT 1
    )
) AS r
CROSS JOIN LATERAL (
    SELECT count(*) AS files, coalesce(sum(f.size_bytes), 0) AS size_bytes
    FROM file f
    WHERE f.table_id = r.table_id AND f.superseded_at IS NOT NULL AND f.superseded_at = r.completion_time
) AS gone
