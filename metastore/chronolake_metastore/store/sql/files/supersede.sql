-- The slicing rule (docs/architecture.md#file-slices). A base file is superseded by the first completed base file with a
-- later requested time. A log file is superseded by the first completed base file that was requested after the log
-- completed; at equal times the log stays in the new slice. Files in a replaced file group are superseded at once. Files
-- that a restore withdrew supersede nothing. The result depends on the files alone, not on the number of events that are
-- projected together, so a rebuild gives the same.
-- OFFSET 0 and MATERIALIZED make the planner read only the live files of each group, by the index with this order.
-- Otherwise, while a table grows faster than its statistics are collected, it would read all files that a group ever had,
-- or the whole table. A row can be updated by its ctid, because no other transaction changes files of a locked table.
WITH touched AS (
    SELECT DISTINCT w.table_id, w.partition_path, w.file_id
    FROM unnest(%(table_id)s::uuid[], %(version)s::bigint[]) AS published (table_id, version)
    CROSS JOIN LATERAL (
        SELECT * FROM write_stat s WHERE s.table_id = published.table_id AND s.version = published.version OFFSET 0
    ) AS w
),
superseded AS MATERIALIZED (
    SELECT
        f.place,
        least(
            (
                SELECT min(later.completion_time)
                FROM (
                    SELECT base.completion_time
                    FROM file base
                    WHERE (base.table_id, base.partition_path, base.file_id) = (f.table_id, f.partition_path, f.file_id)
                        AND base.kind = 'base'
                        AND base.withdrawn_at IS NULL
                        AND base.requested_time
                            > CASE f.kind WHEN 'base' THEN f.requested_time ELSE f.completion_time END
                    OFFSET 0
                ) AS later
            ),
            (
                SELECT min(greatest(r.replaced_at, f.completion_time))
                FROM replaced_group r
                WHERE (r.table_id, r.partition_path, r.file_id) = (f.table_id, f.partition_path, f.file_id)
                    AND r.withdrawn_at IS NULL
            )
        ) AS at
    FROM touched t
    CROSS JOIN LATERAL (
        SELECT live.ctid AS place, live.*
        FROM file live
        WHERE (live.table_id, live.partition_path, live.file_id) = (t.table_id, t.partition_path, t.file_id)
            AND live.superseded_at IS NULL
        ORDER BY live.completion_time
        OFFSET 0
    ) AS f
)
UPDATE file f
SET superseded_at = superseded.at
FROM superseded
WHERE superseded.at IS NOT NULL
    AND f.ctid = superseded.place
