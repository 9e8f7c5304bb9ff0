-- A page of the log of one table, by version: its commands take turns, so versions become visible in their order.
SELECT
    event.transaction_id::text, event.position, t.namespace || '.' || t.name, t.definition ->> 'tick', event.table_id,
    event.version, event.type, micros(event.instant), micros(event.time), event.actor, event.request_id, event.payload,
    encode(event.hash, 'hex')
FROM event
JOIN lake_table t USING (table_id)
WHERE event.table_id = :table_id AND event.version > :version
ORDER BY event.version
LIMIT :limit
