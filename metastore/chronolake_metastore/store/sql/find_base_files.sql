-- The base file of the latest slice of each file group that the group of commands is about to write.
SELECT DISTINCT ON (f.table_id, f.partition_path, f.file_id)
    f.table_id, f.partition_path, f.file_id, micros(f.requested_time), micros(f.completion_time)
FROM file f
JOIN lake_table t ON t.table_id = f.table_id AND t.dropped_at IS NULL
JOIN unnest(%(namespaces)s::text[], %(tables)s::text[], %(partition_paths)s::text[], %(file_ids)s::text[])
    AS named (namespace, name, partition_path, file_id)
    ON t.namespace = named.namespace AND t.name = named.name
    AND f.partition_path = named.partition_path AND f.file_id = named.file_id
WHERE f.superseded_at IS NULL AND f.kind = 'base'
ORDER BY f.table_id, f.partition_path, f.file_id, f.completion_time DESC
