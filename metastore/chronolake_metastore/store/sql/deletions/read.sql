-- The deleted files of the named events, in the order in which each event has them.
SELECT d.table_id, d.version, d.ordinal, micros(d.requested_time), d.partition_path, d.file_name
FROM unnest(%(table_ids)s::uuid[], %(versions)s::bigint[]) AS named (table_id, version)
JOIN deleted_file d USING (table_id, version)
ORDER BY d.table_id, d.version, d.ordinal
