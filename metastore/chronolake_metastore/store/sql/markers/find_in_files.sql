-- The pending writes with markers of files of the named file groups, by the names of the files: file_id is known only in
-- tables with early conflict detection. Plans of table services and the instants of streams are left out.
SELECT DISTINCT
    m.table_id, n.partition_path, n.file_id, CASE m.kind WHEN 'APPEND' THEN 'log' ELSE 'base' END, i.action, i.operation,
    i.state, micros(i.requested_time), NULL::bigint, micros(i.lease_expires_at)
FROM instant i
JOIN marker m ON m.table_id = i.table_id AND m.requested_time = i.requested_time
JOIN unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS n (partition_path, file_id)
    ON n.partition_path = m.partition_path AND starts_with(ltrim(m.file_name, '.'), n.file_id || '_')
WHERE i.table_id = %(table_id)s::uuid
    AND i.state = 'inflight'
    AND i.action IN ('commit', 'deltacommit', 'replacecommit')
    AND i.stream IS NULL
