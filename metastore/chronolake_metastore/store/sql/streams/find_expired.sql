-- Open streams of live tables whose lease has ended and whose buffer is not empty, the longest ago first. The server
-- decides under the lock of the table what of it is rolled back.
SELECT t.namespace || '.' || t.name, s.name, s.writer
FROM stream s
JOIN lake_table t ON t.table_id = s.table_id AND t.dropped_at IS NULL
WHERE s.lease_expires_at <= (SELECT moment(now_us()))
    AND EXISTS (SELECT FROM stream_checkpoint c WHERE c.table_id = s.table_id AND c.stream = s.name)
ORDER BY s.lease_expires_at
LIMIT %(limit)s
