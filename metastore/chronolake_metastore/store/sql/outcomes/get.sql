-- An outcome, with the name of its table. A dropped table keeps its row, and so its name.
SELECT
    o.table_id, o.request_id, o.result, o.dialect, o.answer_digest, t.namespace || '.' || t.name, o.version,
    micros(o.recorded_at)
FROM outcome o
LEFT JOIN lake_table t ON t.table_id = o.table_id
WHERE o.request_id = %(request_id)s
