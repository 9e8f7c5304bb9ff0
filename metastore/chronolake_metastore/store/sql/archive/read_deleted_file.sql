SELECT d.table_id, d.version, d.ordinal, micros(d.requested_time), d.partition_path, d.file_name
FROM unnest(%(table_ids)s::uuid[], %(first_versions)s::bigint[], %(last_versions)s::bigint[])
    AS range (table_id, first, last)
JOIN deleted_file d ON d.table_id = range.table_id AND d.version BETWEEN range.first AND range.last
ORDER BY d.table_id, d.version, d.ordinal
