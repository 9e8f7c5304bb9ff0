-- The pending instants of the named streams: whether they have markers, and whether files were reported deleted.
SELECT
    {instant},
    EXISTS (SELECT FROM marker m WHERE m.table_id = i.table_id AND m.requested_time = i.requested_time),
    EXISTS (SELECT FROM deleted_file d WHERE d.table_id = i.table_id AND d.requested_time = i.requested_time)
FROM unnest(%(namespaces)s::text[], %(tables)s::text[], %(streams)s::text[]) AS named (namespace, name, stream)
JOIN lake_table t ON t.namespace = named.namespace AND t.name = named.name AND t.dropped_at IS NULL
JOIN stream_checkpoint c ON c.table_id = t.table_id AND c.stream = named.stream
JOIN instant i ON i.table_id = c.table_id AND i.requested_time = c.requested_time
