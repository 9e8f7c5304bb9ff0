-- The write stats of the named events, in the order in which each event has them.
SELECT
    w.table_id, w.version, w.ordinal, w.kind, w.partition_path, w.file_id, w.file_name, w.size_bytes, w.records,
    w.inserts, w.updates, w.deletes, w.column_stats::text, w.has_field_ids
FROM unnest(%(table_ids)s::uuid[], %(versions)s::bigint[]) AS named (table_id, version)
JOIN write_stat w USING (table_id, version)
ORDER BY w.table_id, w.version, w.ordinal
