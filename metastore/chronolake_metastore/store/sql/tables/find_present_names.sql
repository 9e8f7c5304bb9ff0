-- The present names of tables by id, without dropped tables.
SELECT table_id, namespace || '.' || name
FROM lake_table
WHERE table_id = ANY (%(table_ids)s::uuid[]) AND dropped_at IS NULL
