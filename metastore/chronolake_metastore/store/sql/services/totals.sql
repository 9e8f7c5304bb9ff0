-- For the metrics: the pending plans of table services by action, and for how long the oldest has waited that nobody
-- executes.
SELECT
    i.action,
    count(*),
    coalesce(max(greatest(wall.time - micros(e.time), 0)) FILTER (WHERE i.state = 'requested'), 0)::bigint
FROM instant i
JOIN lake_table t ON t.table_id = i.table_id
JOIN event e ON e.table_id = i.table_id AND e.version = i.version
CROSS JOIN (SELECT micros(greatest(moment(now_us()), last_time)) AS time FROM wall_clock) AS wall
WHERE i.state IN ('requested', 'inflight')
    AND i.action IN ('compaction', 'logcompaction', 'clustering', 'clean')
    AND i.plan IS NOT NULL
    AND t.dropped_at IS NULL
GROUP BY i.action
