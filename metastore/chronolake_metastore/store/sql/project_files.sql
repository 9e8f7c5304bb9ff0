-- The files that the named events published.
INSERT INTO file (
    table_id, partition_path, file_id, requested_time, file_name, kind, size_bytes, records, completion_time, live_from,
    column_stats, schema_version
)
SELECT
    w.table_id, w.partition_path, w.file_id, moment(published.requested_time), w.file_name, w.kind, w.size_bytes,
    w.records, moment(published.completion_time), moment(published.completion_time),
    (
        SELECT jsonb_object_agg(one ->> 'field_id', one::jsonb - 'field_id')
        FROM json_array_elements(w.column_stats) AS stats (one)
    ),
    coalesce(i.schema_version, 1)
FROM unnest(
    %(table_id)s::uuid[], %(version)s::bigint[], %(requested_time)s::bigint[], %(completion_time)s::bigint[]
) AS published (table_id, version, requested_time, completion_time)
JOIN instant i
    ON i.table_id = published.table_id AND i.requested_time = moment(published.requested_time)
JOIN write_stat w ON w.table_id = published.table_id AND w.version = published.version
