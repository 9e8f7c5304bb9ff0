-- The last event that the feed can return now, in the order across tables.
SELECT event.transaction_id::text, event.position
FROM event
WHERE event.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY event.transaction_id DESC, event.position DESC
LIMIT 1
