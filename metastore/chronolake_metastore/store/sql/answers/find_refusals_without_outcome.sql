SELECT r.table_id, r.table_name, r.version, r.request_id
FROM refusal r
LEFT JOIN outcome o ON o.request_id = r.request_id
WHERE o.request_id IS NULL AND (%(table_id)s::uuid IS NULL OR r.table_id = %(table_id)s)
ORDER BY r.request_id
LIMIT %(limit)s
