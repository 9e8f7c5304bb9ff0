-- Plans of table services that are older than their table allows, and that no executor has. A plan that executors return
-- again and again has waited since it was planned. The index of pending instants has them all. The log has times by the wall
-- clock, so a time by which that has jumped ahead meanwhile does not count.
SELECT t.namespace || '.' || t.name, i.action, micros(i.requested_time), t.definition ->> 'tick', waited.us,
    i.executions ->> 'reason'
FROM instant i
JOIN lake_table t ON t.table_id = i.table_id
CROSS JOIN (
    SELECT micros(greatest(moment(now_us()), w.last_time)) AS wall, steady_us() AS steady FROM wall_clock w
) AS present
CROSS JOIN LATERAL (
    SELECT 1000000 * coalesce(
        (t.definition -> 'properties' ->> 'services.plan-expires-seconds')::bigint, %(default_seconds)s
    ) AS us
) AS expiry
CROSS JOIN LATERAL (
    SELECT present.wall - micros(i.requested_time) - coalesce(sum(j.jump_us), 0) AS us
    FROM clock_jump j
    WHERE j.jump_us > 0 AND j.steady_time > moment(present.steady - expiry.us)
) AS waited
WHERE i.state IN ('requested', 'inflight')
    AND i.state = 'requested'
    AND i.lease_expires_at IS NULL
    AND i.operation IN ('compact', 'log_compact', 'cluster')
    AND t.dropped_at IS NULL
    AND waited.us >= expiry.us
ORDER BY i.requested_time
LIMIT %(limit)s
