INSERT INTO marker (table_id, requested_time, partition_path, file_name, kind, file_id, created_at)
SELECT %(table_id)s::uuid, moment(m.requested_time), m.partition_path, m.file_name, m.kind, m.file_id, now.time
FROM (SELECT moment(now_us()) AS time OFFSET 0) AS now
CROSS JOIN unnest(
    %(requested_times)s::bigint[], %(partition_paths)s::text[], %(file_names)s::text[], %(kinds)s::text[],
    %(file_ids)s::text[]
) AS m (requested_time, partition_path, file_name, kind, file_id)
ON CONFLICT ON CONSTRAINT marker_name_unique DO NOTHING
RETURNING micros(requested_time), partition_path, file_name, kind
