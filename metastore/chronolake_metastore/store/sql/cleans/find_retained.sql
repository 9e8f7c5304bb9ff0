-- For the earliest commit to retain of a clean: the latest requested time of the writes that had completed by a time, and
-- before the first file left the latest slices that the clean keeps although its policy does not: it is in a file group of
-- a pending plan, or a reader holds it. Files that a savepoint pins do not count: Hudi's own cleans remember savepoints.
-- Then the same of the writes that had completed when the last file of the clean left.
SELECT
    micros((
        SELECT i.requested_time
        FROM instant i
        WHERE i.table_id = %(table_id)s::uuid
            AND i.action IN ('commit', 'deltacommit', 'replacecommit')
            AND i.completion_time <= moment(%(until)s::bigint)
            AND (held.left_at IS NULL OR i.completion_time < held.left_at)
        ORDER BY i.requested_time DESC
        LIMIT 1
    )),
    micros((
        SELECT i.requested_time
        FROM instant i
        WHERE i.table_id = %(table_id)s::uuid
            AND i.action IN ('commit', 'deltacommit', 'replacecommit')
            AND i.completion_time <= moment(%(cleaned_before)s::bigint)
        ORDER BY i.requested_time DESC
        LIMIT 1
    ))
FROM (
    SELECT min(f.superseded_at) AS left_at
    FROM file f
    WHERE f.table_id = %(table_id)s::uuid
        AND f.superseded_at <= moment(%(until)s::bigint)
        AND f.cleaned_by IS NULL
        AND (
            EXISTS (
                SELECT
                FROM planned_group p
                WHERE (p.table_id, p.partition_path, p.file_id) = (f.table_id, f.partition_path, f.file_id)
                OFFSET 0
            )
            OR EXISTS (
                SELECT
                FROM reader r
                JOIN file period
                    ON (period.table_id, period.partition_path, period.file_id)
                        = (f.table_id, f.partition_path, f.file_id)
                    AND (period.requested_time, period.file_name) = (f.requested_time, f.file_name)
                WHERE r.table_id = f.table_id
                    AND r.expires_at > moment(%(now)s::bigint)
                    AND period.live_from <= r.as_of
                    AND r.as_of < period.superseded_at
                OFFSET 0
            )
        )
) AS held
