-- The first of some compactions that was planned for a file group while readers still had the plan of an undone one for
-- it: Hudi's Spark reader fails when a file group has two plans. The plan of a completed compaction that a restore has
-- undone is there until cleans have deleted its files, and that of a rolled-back one until its rollback is completed.
-- With requested times, as it was when each was planned; without them, of the compactions that are pending, as it is now.
WITH planned AS MATERIALIZED (
    SELECT moment(time) AS requested_time
    FROM unnest(%(requested_times)s::bigint[]) AS given (time)
    UNION ALL
    SELECT i.requested_time
    FROM instant i
    WHERE %(requested_times)s::bigint[] IS NULL
        AND i.table_id = %(table_id)s
        AND i.state IN ('requested', 'inflight')
        AND i.action = 'compaction'
)
SELECT micros(p.requested_time), own.partition_path, own.name, micros(undone.requested_time)
FROM planned p
CROSS JOIN LATERAL (
    SELECT i.requested_time
    FROM instant i
    JOIN instant restore ON restore.table_id = i.table_id AND restore.requested_time = i.rolled_back_by
    WHERE i.table_id = %(table_id)s
        AND i.undone_completion_time IS NOT NULL
        AND i.operation = 'compact'
        AND restore.requested_time < p.requested_time
        AND EXISTS (
            SELECT
            FROM file f
            LEFT JOIN instant clean ON clean.table_id = f.table_id AND clean.requested_time = f.cleaned_by
            WHERE f.table_id = i.table_id
                AND f.live_from = i.undone_completion_time
                AND f.live_from >= f.completion_time -- always; so that the index on live_from can be used
                AND (
                    (
                        clean.completion_time IS NULL
                        -- A clean that has left the database is completed.
                        AND NOT EXISTS (
                            SELECT
                            FROM first_event left_before
                            WHERE left_before.table_id = f.table_id AND f.cleaned_by < left_before.instants_from
                        )
                    )
                    OR (%(requested_times)s::bigint[] IS NOT NULL AND clean.completion_time > p.requested_time)
                )
        )
    UNION ALL
    SELECT i.requested_time
    FROM instant rollback
    JOIN instant i ON i.table_id = rollback.table_id AND i.requested_time = rollback.target
    WHERE rollback.table_id = %(table_id)s
        AND rollback.state IN ('requested', 'inflight')
        AND rollback.action = 'rollback'
        AND rollback.requested_time < p.requested_time
        AND i.action = 'compaction'
) AS undone
JOIN event_entry own
    ON own.table_id = %(table_id)s AND own.instant = p.requested_time AND own.list = 'plan-file-groups'
JOIN event_entry other
    ON other.table_id = %(table_id)s
    AND other.instant = undone.requested_time
    AND other.list = 'plan-file-groups'
    AND (other.partition_path, other.name) = (own.partition_path, own.name)
ORDER BY p.requested_time, own.ordinal, undone.requested_time
LIMIT 1
