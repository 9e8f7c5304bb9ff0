-- Streams of live tables whose lease has ended and of which something is to be rolled back (domain/streams.expire), the
-- longest ago first. Streams that only wait for their job are no candidates: there may be many of them, for days. The server
-- decides again under the lock of the table.
WITH steady AS (
    SELECT moment(steady_us()) AS now
), candidate AS (
    SELECT c.table_id, c.stream AS name
    FROM stream_checkpoint c
    JOIN stream s ON s.table_id = c.table_id AND s.name = c.stream
    WHERE NOT c.is_reported AND s.lease_expires_at <= (SELECT now FROM steady)
    UNION
    SELECT s.table_id, s.name
    FROM stream s
    WHERE s.lease_expires_at <= (SELECT now - make_interval(secs => %(wait_seconds)s) FROM steady)
    UNION
    -- Tables that say themselves how long.
    SELECT s.table_id, s.name
    FROM lake_table t
    JOIN stream s ON s.table_id = t.table_id
    WHERE t.definition -> 'properties' ? 'streams.wait-seconds'
)
SELECT t.namespace || '.' || t.name, s.name, s.writer
FROM candidate
JOIN stream s USING (table_id, name)
JOIN lake_table t ON t.table_id = s.table_id AND t.dropped_at IS NULL
CROSS JOIN LATERAL (
    SELECT bool_and(c.is_reported) AS is_reported -- null if it is empty
    FROM stream_checkpoint c
    WHERE c.table_id = s.table_id AND c.stream = s.name
) AS buffer
CROSS JOIN LATERAL (
    SELECT coalesce((t.definition -> 'properties' ->> 'streams.wait-seconds')::int, %(wait_seconds)s) AS seconds
) AS wait
WHERE s.lease_expires_at <= (
    SELECT CASE buffer.is_reported WHEN true THEN now - make_interval(secs => wait.seconds) WHEN false THEN now END
    FROM steady
)
ORDER BY s.lease_expires_at
LIMIT %(limit)s
