-- Plans of table services that are older than their table allows, by the steady clock, and that no executor has. A plan that
-- executors return again and again has waited since it was planned. The index of pending instants has them all.
SELECT
    t.namespace || '.' || t.name, i.action, micros(i.requested_time), t.definition ->> 'tick', waited.us,
    i.executions ->> 'reason'
FROM instant i
JOIN lake_table t ON t.table_id = i.table_id
CROSS JOIN (SELECT steady_us() AS us) AS steady
CROSS JOIN LATERAL (SELECT steady.us - (i.executions ->> 'planned_at')::bigint AS us) AS waited
WHERE i.state IN ('requested', 'inflight')
    AND i.state = 'requested'
    AND i.lease_expires_at IS NULL
    AND i.operation IN ('compact', 'log_compact', 'cluster')
    AND t.dropped_at IS NULL
    AND waited.us >= 1000000 * coalesce(
        (t.definition -> 'properties' ->> 'services.plan-expires-seconds')::bigint, %(default_seconds)s
    )
ORDER BY i.requested_time
LIMIT %(limit)s
