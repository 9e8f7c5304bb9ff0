-- Whether a savepoint that is not released pins the instant that completed at this time, or a reader holds this time.
SELECT
    EXISTS (
        SELECT
        FROM instant saved
        JOIN instant savepoint ON savepoint.table_id = saved.table_id AND savepoint.target = saved.requested_time
        WHERE saved.table_id = %(table_id)s
            AND saved.completion_time = moment(%(time)s::bigint)
            AND savepoint.action = 'savepoint'
            AND savepoint.state = 'completed'
    )
    OR EXISTS (
        SELECT
        FROM reader r
        WHERE r.table_id = %(table_id)s
            AND r.as_of = moment(%(time)s::bigint)
            AND r.expires_at > moment(%(now)s::bigint)
    )
