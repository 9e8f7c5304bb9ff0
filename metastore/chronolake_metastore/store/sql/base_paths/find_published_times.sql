-- Of the named times, those of instants of dropped tables, and of tables whose folders these took over, that have published
-- or staged files, or could have: completed instants, and pending ones with staged files; each with the name of its table.
-- A time before the instants of a table that the database has may be that of any instant.
WITH RECURSIVE dropped AS (
    SELECT unnest(%(table_ids)s::uuid[]) AS table_id
    UNION
    SELECT taken.table_id FROM base_path taken JOIN dropped ON taken.taken_by = dropped.table_id
)
SELECT n.requested_time, t.namespace || '.' || t.name
FROM unnest(%(requested_times)s::bigint[]) AS n (requested_time)
CROSS JOIN dropped d
JOIN lake_table t ON t.table_id = d.table_id
LEFT JOIN first_event left_before ON left_before.table_id = d.table_id
LEFT JOIN instant i ON i.table_id = d.table_id AND i.requested_time = moment(n.requested_time)
WHERE moment(n.requested_time) < left_before.instants_from
    OR i.state = 'completed'
    OR i.state IN ('requested', 'inflight') AND EXISTS (
        SELECT
        FROM event e
        WHERE e.table_id = i.table_id AND e.instant = i.requested_time AND e.type = 'WriteStatsStaged'
    )
ORDER BY n.requested_time
LIMIT 1
