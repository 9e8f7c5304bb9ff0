INSERT INTO planned_group (table_id, partition_path, file_id, requested_time)
SELECT table_id, partition_path, file_id, moment(requested_time)
FROM unnest(%(table_id)s::uuid[], %(partition_path)s::text[], %(file_id)s::text[], %(requested_time)s::bigint[])
    AS planned (table_id, partition_path, file_id, requested_time)
