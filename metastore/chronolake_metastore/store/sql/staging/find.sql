-- The summaries of the write stats that the named versions of a table staged for an instant.
SELECT e.version, e.payload ->> 'summary'
FROM lake_table t
CROSS JOIN unnest(%(versions)s::bigint[]) AS named (version)
JOIN event e ON e.table_id = t.table_id AND e.version = named.version
WHERE t.namespace = %(namespace)s
    AND t.name = %(name)s
    AND t.dropped_at IS NULL
    AND e.type = 'WriteStatsStaged'
    AND e.instant = moment(%(requested_time)s)
