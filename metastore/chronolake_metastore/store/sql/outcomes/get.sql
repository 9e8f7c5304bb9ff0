-- The table by its present or former name: a dropped one keeps its row.
SELECT o.status, o.answer, t.namespace || '.' || t.name, o.version, micros(o.recorded_at)
FROM outcome o
LEFT JOIN lake_table t ON t.table_id = o.table_id
WHERE o.request_id = %(request_id)s
