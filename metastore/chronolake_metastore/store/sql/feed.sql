-- A page of the log over all tables, in the order across tables. A transaction that is still open may yet append
-- events with an older id than those that are there: a reader stops before the oldest of them (xmin), so that no
-- event is ever skipped.
SELECT
    event.transaction_id::text, event.position, t.namespace || '.' || t.name, t.definition ->> 'tick', event.table_id,
    event.version, event.type, micros(event.instant), micros(event.time), event.actor, event.request_id, event.payload,
    encode(event.hash, 'hex')
FROM event
LEFT JOIN lake_table t USING (table_id)
WHERE (event.transaction_id, event.position) > (CAST(CAST(:transaction_id AS text) AS xid8), CAST(:position AS bigint))
    AND event.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY event.transaction_id, event.position
LIMIT :limit
