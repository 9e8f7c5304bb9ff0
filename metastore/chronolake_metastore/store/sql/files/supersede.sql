-- The slicing rule (docs/architecture.md#file-slices): a file is in the latest slice until a base file completes whose
-- slice it is no part of. A base file leaves with the next base by requested time; a log file with the first base that
-- was requested after the log completed (equality goes to the new slice: the log stays). A file that is written into a
-- replaced file group is never seen. The answer depends on the files alone, not on how many events are projected at
-- once: a rebuild gives the same. Files that a restore withdrew supersede nothing any more. While a table grows faster
-- than statistics are collected, the planner would read all files that a file group ever had, or the whole table by
-- completion time: OFFSET 0 and MATERIALIZED keep it to the live files of each group, which only the index of the live
-- files has in this order. No other transaction changes files while the table is locked, so that a row found is found
-- again by its place.
WITH touched AS (
    SELECT DISTINCT w.table_id, w.partition_path, w.file_id
    FROM unnest(%(table_id)s::uuid[], %(version)s::bigint[]) AS published (table_id, version)
    JOIN write_stat w ON w.table_id = published.table_id AND w.version = published.version
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
