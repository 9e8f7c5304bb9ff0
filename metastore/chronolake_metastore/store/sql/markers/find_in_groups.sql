-- The pending instants with markers in the named file groups. Markers of instants that ended long ago may still exist, so
-- markers older than the oldest pending instant are not read. An instant of a stream has the lease of the stream, and
-- its reported files are promised if it began without blocking.
SELECT
    m.partition_path, m.file_id, m.kind, i.action, i.operation, i.state, micros(i.requested_time),
    micros(coalesce(s.lease_expires_at, i.lease_expires_at)),
    bool_or(
        s.name IS NOT NULL
        AND EXISTS (
            SELECT
            FROM buffered_file b
            JOIN stream_checkpoint c ON c.table_id = b.table_id AND c.requested_time = b.requested_time
            WHERE (b.file_id, b.partition_path, b.table_id) = (m.file_id, m.partition_path, m.table_id)
                AND (b.requested_time, b.file_name) = (m.requested_time, m.file_name)
                AND NOT c.is_blocking
        )
    )
FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS n (partition_path, file_id)
CROSS JOIN LATERAL (
    SELECT *
    FROM marker of_group
    WHERE of_group.table_id = %(table_id)s::uuid
        AND of_group.partition_path = n.partition_path
        AND of_group.file_id = n.file_id
        AND of_group.requested_time >= (
            SELECT min(p.requested_time)
            FROM instant p
            WHERE p.table_id = %(table_id)s::uuid AND p.state IN ('requested', 'inflight')
        )
    OFFSET 0
) AS m
JOIN instant i ON i.table_id = m.table_id AND i.requested_time = m.requested_time
LEFT JOIN stream s ON s.table_id = i.table_id AND s.name = i.stream ->> 'name'
WHERE i.state IN ('requested', 'inflight')
GROUP BY m.partition_path, m.file_id, m.kind, i.table_id, i.requested_time, s.table_id, s.name
