-- Who touched the named file groups, or plans to: of the files in the latest slices the last of each kind, what
-- replaced a group, and the pending instants whose plans have it.
WITH named AS MATERIALIZED (
    SELECT t.table_id, n.partition_path, n.file_id
    FROM unnest(%(namespaces)s::text[], %(tables)s::text[], %(partition_paths)s::text[], %(file_ids)s::text[])
        AS n (namespace, name, partition_path, file_id)
    JOIN lake_table t ON t.namespace = n.namespace AND t.name = n.name AND t.dropped_at IS NULL
)
(
    SELECT DISTINCT ON (f.table_id, f.partition_path, f.file_id, f.kind, i.operation IN ('compact', 'log_compact'))
        f.table_id, f.partition_path, f.file_id, f.kind, i.action, i.operation, i.state, micros(f.requested_time),
        micros(f.completion_time), NULL::bigint
    FROM named
    JOIN file f USING (table_id, partition_path, file_id)
    JOIN instant i ON i.table_id = f.table_id AND i.requested_time = f.requested_time
    WHERE f.superseded_at IS NULL
    ORDER BY
        f.table_id, f.partition_path, f.file_id, f.kind, i.operation IN ('compact', 'log_compact'),
        f.completion_time DESC
)
UNION ALL
SELECT
    r.table_id, r.partition_path, r.file_id, 'replaced', i.action, i.operation, i.state, micros(r.requested_time),
    micros(r.replaced_at), NULL
FROM named
JOIN replaced_group r USING (table_id, partition_path, file_id)
JOIN instant i ON i.table_id = r.table_id AND i.requested_time = r.requested_time
UNION ALL
SELECT
    p.table_id, p.partition_path, p.file_id, 'planned', i.action, i.operation, i.state, micros(p.requested_time),
    NULL, micros(i.lease_expires_at)
FROM named
JOIN planned_group p USING (table_id, partition_path, file_id)
JOIN instant i ON i.table_id = p.table_id AND i.requested_time = p.requested_time
