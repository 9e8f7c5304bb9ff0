-- What the trigger of clustering counts: commits of writers that completed after the last clustering was requested, up to a
-- limit. A clustering that was rolled back does not count.
WITH last AS MATERIALIZED (
    SELECT max(newest.requested_time) AS requested
    FROM (
        SELECT i.requested_time
        FROM instant i
        WHERE i.table_id = %(table_id)s::uuid AND i.operation = 'cluster' AND i.state <> 'rolled_back'
        ORDER BY i.requested_time DESC
        LIMIT 1
    ) AS newest
)
SELECT
    -- Some commits since the last one have left PostgreSQL. The trigger was reached then, but it may count more now.
    CASE WHEN count(f.table_id) > 0 THEN %(limit)s::bigint ELSE count(written.completion_time) END,
    micros(min(written.completion_time)),
    micros((SELECT requested FROM last)),
    EXISTS (
        SELECT
        FROM instant i
        WHERE i.table_id = %(table_id)s::uuid AND i.state IN ('requested', 'inflight') AND i.operation = 'cluster'
    )
FROM (
    SELECT i.completion_time
    FROM last
    CROSS JOIN LATERAL (
        SELECT *
        FROM instant done
        WHERE done.table_id = %(table_id)s::uuid
            AND done.completion_time > coalesce(last.requested, moment(0))
            AND done.action IN ('commit', 'deltacommit', 'replacecommit')
            AND done.operation NOT IN ('compact', 'log_compact', 'cluster')
        ORDER BY done.completion_time
        LIMIT %(limit)s
    ) AS i
) AS written
LEFT JOIN first_event f
    ON f.table_id = %(table_id)s::uuid AND f.instants_from > coalesce((SELECT requested FROM last), moment(0))
