-- Those of the named files that were staged under the given versions, with what was reported of them.
SELECT w.partition_path, w.file_name, w.size_bytes, w.records, w.inserts, w.updates, w.deletes
FROM write_stat w
JOIN unnest(%(partition_paths)s::text[], %(file_names)s::text[]) AS named (partition_path, file_name)
    USING (partition_path, file_name)
WHERE w.table_id = %(table_id)s AND w.version = ANY (%(versions)s::bigint[])
