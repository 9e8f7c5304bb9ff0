-- The last event, in the order across tables, that the feed gives out by now.
SELECT event.transaction_id::text, event.position
FROM event
WHERE event.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY event.transaction_id DESC, event.position DESC
LIMIT 1
