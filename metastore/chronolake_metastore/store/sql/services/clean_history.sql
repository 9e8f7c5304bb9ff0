-- What the trigger of cleans counts: writes that completed after the last clean was requested, up to a limit; whether a
-- clean is pending; and the requested times of the savepoints and the names of the readers, for messages.
WITH last AS MATERIALIZED (
    SELECT max(newest.requested_time) AS requested
    FROM (
        SELECT i.requested_time
        FROM instant i
        WHERE i.table_id = %(table_id)s::uuid AND i.action = 'clean' AND i.state <> 'rolled_back'
        ORDER BY i.requested_time DESC
        LIMIT 1
    ) AS newest
)
SELECT
    -- Some commits since the last one have left PostgreSQL. The trigger was reached then, but it may count more now.
    CASE WHEN count(f.table_id) > 0 THEN %(limit)s::bigint ELSE count(written.completion_time) END,
    micros(min(written.completion_time)),
    EXISTS (
        SELECT
        FROM instant i
        WHERE i.table_id = %(table_id)s::uuid AND i.state IN ('requested', 'inflight') AND i.action = 'clean'
    ),
    ARRAY(
        SELECT instant_time(savepoint.requested_time, %(tick_us)s)
        FROM instant savepoint
        WHERE savepoint.table_id = %(table_id)s::uuid
            AND savepoint.action = 'savepoint'
            AND savepoint.state = 'completed'
        ORDER BY savepoint.requested_time
    ),
    ARRAY(
        SELECT r.reader
        FROM reader r
        WHERE r.table_id = %(table_id)s::uuid AND r.as_of IS NOT NULL AND r.expires_at > moment(%(now)s)
        ORDER BY r.as_of
    ),
    ARRAY(
        SELECT r.reader
        FROM reader r
        WHERE r.table_id = %(table_id)s::uuid AND r.follows AND r.expires_at > moment(%(now)s)
        ORDER BY r.as_of NULLS FIRST
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
        ORDER BY done.completion_time
        LIMIT %(limit)s
    ) AS i
) AS written
LEFT JOIN first_event f
    ON f.table_id = %(table_id)s::uuid AND f.instants_from > coalesce((SELECT requested FROM last), moment(0))
