-- What is in a replaced file group leaves with the replacement, unless a base file took its place before.
UPDATE file f
SET superseded_at = greatest(r.replaced_at, f.completion_time)
FROM unnest(%(table_id)s::uuid[], %(partition_path)s::text[], %(file_id)s::text[])
    AS named (table_id, partition_path, file_id)
JOIN replaced_group r USING (table_id, partition_path, file_id)
WHERE f.table_id = r.table_id
    AND f.partition_path = r.partition_path
    AND f.file_id = r.file_id
    AND r.withdrawn_at IS NULL
    AND (f.superseded_at IS NULL OR f.superseded_at > greatest(r.replaced_at, f.completion_time))
