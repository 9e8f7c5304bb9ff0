-- What holds the active timeline: the first of each kind, with the bound of the first commit that stays, and the instant that
-- is the cause (domain/active_window.py). While a clean is pending or not published, the files in its plan may or may not be
-- there, so nothing may leave. The files of a clean that is published are deleted.
WITH unfinished AS MATERIALIZED (
    SELECT i.requested_time, i.action
    FROM instant i
    WHERE i.table_id = %(table_id)s AND i.state IN ('requested', 'inflight')
    UNION ALL
    SELECT i.requested_time, i.action
    FROM instant i
    WHERE i.table_id = %(table_id)s
        AND i.completion_time IS NOT NULL
        AND i.completion_time > moment(%(published)s)
)
SELECT held_by, micros(bound), micros(requested_time)
FROM (
    SELECT 'pending' AS held_by, min(requested_time) AS bound, min(requested_time) AS requested_time
    FROM unfinished
    UNION ALL
    SELECT 'pending', moment(%(begin)s), min(requested_time)
    FROM unfinished
    WHERE action = 'clean'
    HAVING count(*) > 0
    UNION ALL
    SELECT 'undone', min(i.requested_time), min(i.requested_time)
    FROM instant i
    WHERE i.table_id = %(table_id)s
        AND i.requested_time >= moment(%(begin)s)
        AND i.state = 'rolled_back'
        AND i.action <> 'savepoint'
        AND (
            -- Its late files are not searched for yet.
            i.grace_began_at IS NOT NULL
            OR EXISTS (
                SELECT
                FROM unfinished undoing
                WHERE undoing.requested_time = i.rolled_back_by
            )
            OR EXISTS (
                SELECT
                FROM file f
                WHERE f.table_id = i.table_id
                    AND f.live_from = i.undone_completion_time
                    AND f.live_from >= f.completion_time -- always; so that the index on live_from can be used
                    AND f.requested_time = i.requested_time
                    AND f.cleaned_by IS NULL
            )
        )
    UNION ALL
    (
        -- A restore undoes the instants that completed after the saved one.
        SELECT 'savepoint', bound.requested_time, savepoint.requested_time
        FROM instant savepoint
        JOIN instant saved ON saved.table_id = savepoint.table_id AND saved.requested_time = savepoint.target
        CROSS JOIN LATERAL (
            SELECT min(later.requested_time) AS requested_time
            FROM instant later
            WHERE later.table_id = saved.table_id AND later.completion_time >= saved.completion_time
        ) AS bound
        WHERE savepoint.table_id = %(table_id)s AND savepoint.action = 'savepoint' AND savepoint.state = 'completed'
        ORDER BY bound.requested_time
        LIMIT 1
    )
    UNION ALL
    SELECT 'replaced', min(i.requested_time), min(i.requested_time)
    FROM instant i
    WHERE i.table_id = %(table_id)s
        AND i.requested_time >= moment(%(begin)s)
        AND i.state = 'completed'
        AND i.action = 'replacecommit'
        AND EXISTS (
            SELECT
            FROM file f
            WHERE f.table_id = i.table_id AND f.superseded_at = i.completion_time AND f.cleaned_by IS NULL
        )
    UNION ALL
    SELECT 'log-file', min(f.requested_time), min(f.requested_time)
    FROM file f
    WHERE %(has_logs)s AND f.table_id = %(table_id)s AND f.superseded_at IS NULL AND f.kind = 'log'
    UNION ALL
    SELECT 'log-file', min(f.requested_time), min(f.requested_time)
    FROM file f
    WHERE %(has_logs)s
        AND f.table_id = %(table_id)s
        AND f.superseded_at IS NOT NULL
        AND f.cleaned_by IS NULL
        AND f.kind = 'log'
    UNION ALL
    SELECT 'clean', t.earliest_commit_to_retain, t.earliest_commit_to_retain
    FROM lake_table t
    WHERE t.table_id = %(table_id)s
    UNION ALL
    (
        SELECT 'last-write', i.requested_time, i.requested_time
        FROM instant i
        WHERE i.table_id = %(table_id)s
            AND i.completion_time IS NOT NULL
            AND i.action IN ('commit', 'deltacommit', 'replacecommit')
        ORDER BY i.completion_time DESC
        LIMIT 1
    )
) AS blockers
WHERE bound IS NOT NULL
