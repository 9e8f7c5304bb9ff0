-- The files that a clean may delete, in the order in which they left the latest slices. Files are kept if they are live,
-- left the latest slices after a time, are held by a savepoint or a reader, or are in a file group of a pending plan. A
-- file that restores brought back has several periods: the last one says when it left, and a hold in any of them keeps
-- it. A clean by versions also keeps files of slices with fewer than that number of newer slices, unless their file group
-- was replaced. OFFSET 0 makes the planner look the conditions up file by file.
SELECT f.partition_path, f.file_name, f.size_bytes, micros(f.superseded_at)
FROM file f
WHERE f.table_id = %(table_id)s::uuid
    AND f.superseded_at <= moment(%(until)s)
    AND f.cleaned_by IS NULL
    AND NOT EXISTS (
        SELECT
        FROM file AS period
        WHERE (period.table_id, period.partition_path, period.file_id) = (f.table_id, f.partition_path, f.file_id)
            AND (period.requested_time, period.file_name) = (f.requested_time, f.file_name)
            AND (
                period.live_from > f.live_from
                OR EXISTS (
                    SELECT
                    FROM unnest(%(protected_times)s::bigint[]) AS protected (at)
                    WHERE period.live_from <= moment(protected.at) AND moment(protected.at) < period.superseded_at
                )
            )
        OFFSET 0
    )
    AND NOT EXISTS (
        SELECT
        FROM planned_group p
        WHERE (p.table_id, p.partition_path, p.file_id) = (f.table_id, f.partition_path, f.file_id)
        OFFSET 0
    )
    AND (
        %(versions)s::bigint IS NULL
        OR f.withdrawn_at IS NOT NULL
        OR EXISTS (
            SELECT
            FROM replaced_group r
            WHERE (r.table_id, r.partition_path, r.file_id) = (f.table_id, f.partition_path, f.file_id)
                AND r.withdrawn_at IS NULL
            OFFSET 0
        )
        OR %(versions)s::bigint <= (
            SELECT count(DISTINCT newer.requested_time)
            FROM (
                SELECT base.requested_time
                FROM file base
                WHERE (base.table_id, base.partition_path, base.file_id) = (f.table_id, f.partition_path, f.file_id)
                    AND base.kind = 'base'
                    AND base.withdrawn_at IS NULL
                    AND base.requested_time > CASE f.kind WHEN 'base' THEN f.requested_time ELSE f.completion_time END
                OFFSET 0
            ) AS newer
        )
    )
ORDER BY f.superseded_at, f.partition_path, f.file_name
LIMIT %(files)s
