-- The first log file that Hudi's Spark reader would leave out: in its file group is a base file that no completed instant
-- has, and that is later than the last one before the log file. Such a file is of a restored instant, until a clean has
-- deleted it, or of a pending write, by its markers, until its rollback has. Compactions have a plan that tells readers.
-- The log files are those that became live after one time up to another; with live_only, all that are live now. A clean that
-- has left the database is completed.
WITH logs AS MATERIALIZED (
    SELECT l.*
    FROM file l
    WHERE NOT %(live_only)s::boolean
        AND l.table_id = %(table_id)s
        AND l.live_from > moment(%(after)s)
        AND l.live_from <= moment(%(until)s)
        AND l.kind = 'log'
    UNION ALL
    SELECT l.*
    FROM file l
    WHERE %(live_only)s::boolean AND l.table_id = %(table_id)s AND l.superseded_at IS NULL AND l.kind = 'log'
), writing AS MATERIALIZED (
    SELECT i.requested_time
    FROM (
        SELECT CASE WHEN p.action = 'rollback' THEN p.target ELSE p.requested_time END AS requested_time
        FROM instant p
        WHERE p.table_id = %(table_id)s AND p.state IN ('requested', 'inflight')
    ) AS pending
    JOIN instant i ON i.table_id = %(table_id)s AND i.requested_time = pending.requested_time
    WHERE i.operation <> 'compact'
)
SELECT micros(l.live_from), l.partition_path, l.file_id, micros(uncommitted.requested_time)
FROM logs l
CROSS JOIN LATERAL (
    SELECT f.requested_time
    FROM file f
    JOIN instant i ON i.table_id = f.table_id AND i.requested_time = f.requested_time
    LEFT JOIN instant clean ON clean.table_id = f.table_id AND clean.requested_time = f.cleaned_by
    WHERE (f.table_id, f.partition_path, f.file_id) = (l.table_id, l.partition_path, l.file_id)
        AND f.requested_time <= l.completion_time
        AND f.kind = 'base'
        AND f.withdrawn_at IS NOT NULL
        AND i.operation <> 'compact'
        AND clean.completion_time IS NULL
        AND NOT EXISTS (
            SELECT
            FROM first_event left_before
            WHERE left_before.table_id = f.table_id AND f.cleaned_by < left_before.instants_from
        )
    UNION ALL
    SELECT m.requested_time
    FROM writing w
    JOIN marker m
        ON m.table_id = l.table_id
        AND m.requested_time = w.requested_time
        AND m.partition_path = l.partition_path
        -- All names that begin with the id of the file group and an underscore.
        AND m.file_name >= l.file_id || '_'
        AND m.file_name < l.file_id || '`'
    WHERE w.requested_time <= l.completion_time
) AS uncommitted
WHERE NOT EXISTS (
        SELECT
        FROM file b
        WHERE (b.table_id, b.partition_path, b.file_id) = (l.table_id, l.partition_path, l.file_id)
            AND b.requested_time > uncommitted.requested_time
            AND b.requested_time <= l.completion_time
            AND b.kind = 'base'
            AND b.withdrawn_at IS NULL
            AND (b.completion_time <= l.completion_time OR %(live_only)s::boolean)
    )
ORDER BY l.live_from, l.partition_path, l.file_id
LIMIT 1
