-- For the metrics: the pending plans of table services by action, the age of the oldest that no executor has, and how often
-- one of them was taken at most.
SELECT
    i.action,
    count(*),
    coalesce(max(greatest(wall.time - micros(i.requested_time), 0)) FILTER (WHERE i.state = 'requested'), 0)::bigint,
    coalesce(max((i.executions ->> 'taken')::int), 0)
FROM instant i
JOIN lake_table t ON t.table_id = i.table_id
CROSS JOIN (SELECT micros(greatest(moment(now_us()), last_time)) AS time FROM wall_clock) AS wall
WHERE i.state IN ('requested', 'inflight')
    AND i.action IN ('compaction', 'logcompaction', 'clustering', 'clean')
    AND i.plan IS NOT NULL
    AND t.dropped_at IS NULL
GROUP BY i.action
