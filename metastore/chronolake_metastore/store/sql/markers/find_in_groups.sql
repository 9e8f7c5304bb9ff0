-- The pending instants with markers in the named file groups. Markers of instants that ended long ago may still exist, so
-- markers older than the oldest pending instant are not read.
SELECT DISTINCT m.partition_path, m.file_id, m.kind, i.action, i.operation, i.state, micros(i.requested_time),
    micros(i.lease_expires_at)
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
WHERE i.state IN ('requested', 'inflight')
