INSERT INTO event_entry (table_id, instant, list, ordinal, version, partition_path, name)
SELECT table_id, moment(instant), list, ordinal, version, partition_path, name
FROM unnest(
    %(table_id)s::uuid[], %(instant)s::bigint[], %(list)s::text[], %(ordinal)s::integer[], %(version)s::bigint[],
    %(partition_path)s::text[], %(name)s::text[]
) AS appended (table_id, instant, list, ordinal, version, partition_path, name)
