-- Insert the files that the named events published. OFFSET 0 makes the planner look rows up by their keys.
INSERT INTO file (
    table_id, version, ordinal, partition_path, file_id, requested_time, file_name, kind, size_bytes, records,
    completion_time, live_from, column_stats, schema_version, has_field_ids
)
SELECT
    w.table_id, w.version, w.ordinal, w.partition_path, w.file_id, moment(published.requested_time), w.file_name, w.kind,
    w.size_bytes, w.records, moment(published.completion_time), moment(published.completion_time),
    stats_by_column(w.column_stats), coalesce(i.schema_version, 1), coalesce(w.has_field_ids, false)
FROM unnest(
    %(table_id)s::uuid[], %(version)s::bigint[], %(requested_time)s::bigint[], %(completion_time)s::bigint[]
) AS published (table_id, version, requested_time, completion_time)
CROSS JOIN LATERAL (
    SELECT wrote.schema_version
    FROM instant wrote
    WHERE wrote.table_id = published.table_id AND wrote.requested_time = moment(published.requested_time)
    OFFSET 0
) AS i
CROSS JOIN LATERAL (
    SELECT * FROM write_stat s WHERE s.table_id = published.table_id AND s.version = published.version OFFSET 0
) AS w
