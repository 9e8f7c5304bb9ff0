SELECT
    w.table_id, w.version, w.ordinal, w.kind, w.partition_path, w.file_id, w.file_name, w.size_bytes, w.records,
    w.inserts, w.updates, w.deletes, w.column_stats::text, w.has_field_ids
FROM unnest(%(table_ids)s::uuid[], %(first_versions)s::bigint[], %(last_versions)s::bigint[])
    AS range (table_id, first, last)
JOIN write_stat w ON w.table_id = range.table_id AND w.version BETWEEN range.first AND range.last
ORDER BY w.table_id, w.version, w.ordinal
