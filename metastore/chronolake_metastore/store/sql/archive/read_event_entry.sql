SELECT e.table_id, e.version, x.list, x.ordinal, micros(x.instant), x.partition_path, x.name
FROM event e
JOIN event_entry x ON x.table_id = e.table_id AND x.instant = e.instant AND x.version = e.version
WHERE e.transaction_id >= %(begin)s::xid8 AND e.transaction_id < %(end)s::xid8
ORDER BY e.table_id, e.version, x.list, x.ordinal
