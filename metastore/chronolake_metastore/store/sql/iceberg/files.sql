-- The base files of a state and of its parent, in the file groups after the named one, in order. A file may have several periods.
SELECT
    f.partition_path, f.file_id, f.file_name, f.size_bytes, f.records,
    micros(f.requested_time), micros(f.completion_time),
    f.schema_version, f.has_field_ids, f.column_stats::text,
    ({is_in_parent}) AS in_parent,
    ({is_in_state}) AS in_state
FROM unnest(%(partition_paths)s::text[], %(file_ids)s::text[]) AS named (partition_path, file_id)
CROSS JOIN LATERAL ({periods_after}) AS f
ORDER BY f.partition_path, f.file_id, f.file_name
LIMIT %(rows)s
