-- The outcomes whose version has no event. An outcome has the version that the log of its table had right after the
-- command. The version of a refusal is null if it concerns no table, and may be 0 if the log was still empty.
SELECT o.table_id, o.version, o.request_id
FROM outcome o
LEFT JOIN event e ON e.table_id = o.table_id AND e.version = o.version
WHERE o.version > 0 AND e.table_id IS NULL AND (%(table_id)s::uuid IS NULL OR o.table_id = %(table_id)s)
ORDER BY o.table_id, o.version, o.request_id
LIMIT %(limit)s
