-- What waits in the buffers of all streams: instants, the bytes of reported files, and the age of the oldest instant.
SELECT
    count(*),
    coalesce(sum(c.size_bytes), 0),
    coalesce(greatest(now_us() - min(micros(c.requested_time)), 0), 0)
FROM stream_checkpoint c
JOIN lake_table t ON t.table_id = c.table_id AND t.dropped_at IS NULL
