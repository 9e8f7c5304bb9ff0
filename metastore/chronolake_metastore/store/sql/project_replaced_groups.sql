INSERT INTO replaced_group (table_id, partition_path, file_id, requested_time, replaced_at)
SELECT table_id, partition_path, file_id, moment(requested_time), moment(replaced_at)
FROM unnest(
    %(table_id)s::uuid[], %(partition_path)s::text[], %(file_id)s::text[], %(requested_time)s::bigint[],
    %(replaced_at)s::bigint[]
) AS replaced (table_id, partition_path, file_id, requested_time, replaced_at)
