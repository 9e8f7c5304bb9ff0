-- The names of tables, by their ids, unless they were dropped.
SELECT table_id, namespace || '.' || name
FROM lake_table
WHERE table_id = ANY (%(table_ids)s::uuid[]) AND dropped_at IS NULL
