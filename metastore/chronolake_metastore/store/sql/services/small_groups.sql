-- The file groups of some partitions whose base files are small, or missing, as one document (see log_groups.sql). The cost
-- is that of the live files of these partitions. Only a clustering gives an order, so the others' plans are not read.
-- The last OFFSET 0 keeps the planner from searching the reports of the whole table by requested time.
SELECT coalesce(
    json_agg(json_build_array(
        g.partition_path, g.file_id, g.base_bytes, g.log_bytes, g.files, micros(g.completed), s.sort_columns, s.layout,
        p.is_planned, instant_time(p.written_by, %(tick_us)s)
    )),
    '[]'
)::text
FROM unnest(%(partition_paths)s::text[]) AS named (partition_path)
CROSS JOIN LATERAL (
    SELECT
        named.partition_path,
        live.file_id,
        coalesce(sum(live.size_bytes) FILTER (WHERE live.kind = 'base'), 0) AS base_bytes,
        coalesce(sum(live.size_bytes) FILTER (WHERE live.kind = 'log'), 0) AS log_bytes,
        count(*) AS files,
        coalesce(max(live.live_from) FILTER (WHERE live.kind = 'base'), min(live.live_from)) AS completed,
        max(live.requested_time) FILTER (WHERE live.kind = 'base') AS base_time
    FROM (
        SELECT *
        FROM file f
        WHERE f.table_id = %(table_id)s::uuid AND f.partition_path = named.partition_path AND f.superseded_at IS NULL
        ORDER BY f.file_id, f.completion_time
        OFFSET 0
    ) AS live
    GROUP BY live.file_id
    HAVING coalesce(sum(live.size_bytes) FILTER (WHERE live.kind = 'base'), 0) < %(small_file_limit)s
) AS g
LEFT JOIN LATERAL (
    SELECT
        i.plan -> 'details' ->> 'hoodie.clustering.plan.strategy.sort.columns' AS sort_columns,
        i.plan -> 'details' ->> 'hoodie.layout.optimize.strategy' AS layout
    FROM instant i
    WHERE %(sorts)s
        AND i.table_id = %(table_id)s::uuid
        AND i.requested_time = g.base_time
        AND i.operation = 'cluster'
    OFFSET 0
) AS s ON true
CROSS JOIN LATERAL (
    SELECT
        EXISTS (
            SELECT
            FROM planned_group planned
            WHERE (planned.table_id, planned.partition_path, planned.file_id)
                = (%(table_id)s::uuid, g.partition_path, g.file_id)
                AND planned.is_service
            OFFSET 0
        ) AS is_planned,
        least(
            (
                SELECT min(planned.requested_time)
                FROM planned_group planned
                JOIN instant i ON i.table_id = planned.table_id AND i.requested_time = planned.requested_time
                WHERE (planned.table_id, planned.partition_path, planned.file_id)
                    = (%(table_id)s::uuid, g.partition_path, g.file_id)
                    AND NOT planned.is_service
                    AND i.lease_expires_at > moment(%(now)s)
            ),
            (
                SELECT min(reported.requested_time)
                FROM (
                    SELECT *
                    FROM buffered_file b
                    WHERE (b.file_id, b.partition_path, b.table_id)
                        = (g.file_id, g.partition_path, %(table_id)s::uuid)
                    OFFSET 0
                ) AS reported
            )
        ) AS written_by
) AS p
