-- An outcome names the version that its table's log had right after the command. A refusal may concern no table, or
-- a log in which nothing has happened yet.
SELECT o.table_id, o.version, o.request_id
FROM outcome o
LEFT JOIN event e ON e.table_id = o.table_id AND e.version = o.version
WHERE o.version > 0 AND e.table_id IS NULL AND (%(table_id)s::uuid IS NULL OR o.table_id = %(table_id)s)
ORDER BY o.table_id, o.version, o.request_id
LIMIT %(limit)s
