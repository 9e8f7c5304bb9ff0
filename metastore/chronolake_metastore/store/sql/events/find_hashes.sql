SELECT e.table_id, e.version, e.hash
FROM unnest(%(table_ids)s::uuid[], %(versions)s::bigint[]) AS named (table_id, version)
JOIN event e USING (table_id, version)
