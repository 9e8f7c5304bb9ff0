-- Whether the row of an instant i before the border f.instants_from stays, because statements of the state read it. All that
-- decides it is final but the times as of which the table can be read, which increase.
coalesce(
    -- The instant that replaced file groups.
    (i.action = 'replacecommit' AND coalesce(i.completion_time, i.undone_completion_time) IS NOT NULL)
    -- Clusterings that writes have cancelled since the last one.
    OR (
        i.rollback_cause = 'conflict'
        AND i.requested_time > coalesce(
            (
                SELECT done.requested_time
                FROM instant done
                WHERE done.table_id = i.table_id
                    AND done.operation IN ('compact', 'log_compact', 'cluster')
                    AND done.operation = 'cluster'
                    AND done.completion_time IS NOT NULL
                    AND done.requested_time < f.instants_from
                ORDER BY done.completion_time DESC
                LIMIT 1
            ),
            '-infinity'
        )
    )
    -- The last run of each service, and its last plan. Later ones may be undone.
    OR (
        i.operation IN ('compact', 'log_compact', 'cluster')
        AND (
            i.requested_time = (
                SELECT max(last.requested_time)
                FROM instant last
                WHERE last.table_id = i.table_id
                    AND last.operation IN ('compact', 'log_compact', 'cluster')
                    AND last.operation = i.operation
                    AND last.requested_time < f.instants_from
            )
            OR i.requested_time = (
                SELECT max(last.requested_time)
                FROM instant last
                WHERE last.table_id = i.table_id
                    AND last.operation IN ('compact', 'log_compact', 'cluster')
                    AND last.operation = i.operation
                    AND last.requested_time < f.instants_from
                    AND last.state <> 'rolled_back'
            )
            OR i.completion_time = (
                SELECT max(last.completion_time)
                FROM instant last
                WHERE last.table_id = i.table_id
                    AND last.operation IN ('compact', 'log_compact', 'cluster')
                    AND last.operation = i.operation
                    AND last.requested_time < f.instants_from
                    AND last.completion_time IS NOT NULL
            )
            -- Reads as of earlier times show its plan as pending (readable_plans.sql).
            OR EXISTS (
                SELECT
                FROM lake_table t
                WHERE t.table_id = i.table_id
                    AND t.dropped_at IS NULL
                    AND coalesce(i.completion_time, i.undone_completion_time, i.rolled_back_at) > least(
                        coalesce(t.cleaned_before, '-infinity'),
                        (
                            SELECT min(saved.completion_time)
                            FROM instant savepoint
                            JOIN instant saved
                                ON saved.table_id = savepoint.table_id AND saved.requested_time = savepoint.target
                            WHERE savepoint.table_id = t.table_id
                                AND savepoint.action = 'savepoint'
                                AND savepoint.state = 'completed'
                        ),
                        (SELECT min(r.as_of) FROM reader r WHERE r.table_id = t.table_id)
                    )
            )
        )
    )
    OR (
        i.action = 'clean'
        AND i.requested_time = (
            SELECT max(last.requested_time)
            FROM instant last
            WHERE last.table_id = i.table_id
                AND last.action = 'clean'
                AND last.requested_time < f.instants_from
                AND last.state <> 'rolled_back'
        )
    ),
    false
)
