INSERT INTO write_stat (
    table_id, version, ordinal, partition_path, file_id, file_name, kind, size_bytes, records, inserts, updates, deletes,
    column_stats, has_field_ids
)
SELECT
    table_id, version, ordinal, partition_path, file_id, file_name, kind, size_bytes, records, inserts, updates, deletes,
    column_stats::json, has_field_ids
FROM unnest(
    %(table_id)s::uuid[], %(version)s::bigint[], %(ordinal)s::integer[], %(partition_path)s::text[], %(file_id)s::text[],
    %(file_name)s::text[], %(kind)s::text[], %(size_bytes)s::bigint[], %(records)s::bigint[], %(inserts)s::bigint[],
    %(updates)s::bigint[], %(deletes)s::bigint[], %(column_stats)s::text[], %(has_field_ids)s::boolean[]
) AS written (
    table_id, version, ordinal, partition_path, file_id, file_name, kind, size_bytes, records, inserts, updates, deletes,
    column_stats, has_field_ids
)
