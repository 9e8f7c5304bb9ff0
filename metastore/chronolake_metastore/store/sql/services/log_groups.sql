-- The file groups with log files in their latest slices, as one document: a hundred thousand rows would take longer to
-- decode than to read. The partial index of live log files has no other rows, so the cost is that of what was written since
-- the groups were compacted. A log compaction leaves the log files that it has merged in the slice: only those count that
-- completed after it was requested, its own among them. OFFSET 0 makes the planner look base files up group by group.
SELECT coalesce(
    json_agg(json_build_array(
        g.partition_path, g.file_id, base.size_bytes, g.size_bytes, g.logs, g.unmerged, micros(g.oldest), p.is_planned
    )),
    '[]'
)::text
FROM (
    SELECT
        live.partition_path,
        live.file_id,
        sum(live.size_bytes) AS size_bytes,
        count(*) AS logs,
        count(*) FILTER (WHERE live.completion_time > coalesce(live.merged_at, moment(0))) AS unmerged,
        min(live.completion_time) AS oldest
    FROM (
        SELECT
            f.partition_path,
            f.file_id,
            f.size_bytes,
            f.completion_time,
            max(f.requested_time) FILTER (
                WHERE f.requested_time IN (
                    SELECT i.requested_time
                    FROM instant i
                    WHERE i.table_id = %(table_id)s::uuid
                        AND i.operation = 'log_compact'
                        AND i.completion_time IS NOT NULL
                )
            ) OVER (PARTITION BY f.partition_path, f.file_id) AS merged_at
        FROM file f
        WHERE f.table_id = %(table_id)s::uuid
            AND f.superseded_at IS NULL
            AND f.kind = 'log'
            AND (%(regex)s::text IS NULL OR f.partition_path ~ ('^(?:' || %(regex)s || ')$'))
    ) AS live
    GROUP BY live.partition_path, live.file_id
) AS g
CROSS JOIN LATERAL (
    SELECT sum(f.size_bytes) AS size_bytes
    FROM (
        SELECT *
        FROM file b
        WHERE (b.table_id, b.partition_path, b.file_id) = (%(table_id)s::uuid, g.partition_path, g.file_id)
            AND b.superseded_at IS NULL
        ORDER BY b.completion_time
        OFFSET 0
    ) AS f
    WHERE f.kind = 'base'
) AS base
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT
        FROM planned_group planned
        WHERE (planned.table_id, planned.partition_path, planned.file_id)
            = (%(table_id)s::uuid, g.partition_path, g.file_id)
            AND planned.is_service
        OFFSET 0
    ) AS is_planned
) AS p
