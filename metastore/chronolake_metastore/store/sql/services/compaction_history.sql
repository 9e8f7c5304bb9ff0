-- What the trigger of compaction counts: delta commits after the request of the last compaction that completed, of the last
-- that was requested and not rolled back, and of the last log compaction that completed. Each count ends at a limit, so the
-- cost does not grow with the history. A log file that completes after the request of a compaction is in the next slice.
WITH last AS MATERIALIZED (
    SELECT
        (
            SELECT i.requested_time
            FROM instant i
            WHERE i.table_id = %(table_id)s::uuid AND i.operation = 'compact' AND i.completion_time IS NOT NULL
            ORDER BY i.completion_time DESC
            LIMIT 1
        ) AS completed,
        (
            SELECT i.requested_time
            FROM instant i
            WHERE i.table_id = %(table_id)s::uuid AND i.operation = 'compact' AND i.state <> 'rolled_back'
            ORDER BY i.requested_time DESC
            LIMIT 1
        ) AS requested,
        (
            SELECT i.requested_time
            FROM instant i
            WHERE i.table_id = %(table_id)s::uuid AND i.operation = 'log_compact' AND i.completion_time IS NOT NULL
            ORDER BY i.completion_time DESC
            LIMIT 1
        ) AS logs
)
SELECT
    max(counted.number) FILTER (WHERE counted.place = 'completed'),
    micros(min(counted.first) FILTER (WHERE counted.place = 'completed')),
    max(counted.number) FILTER (WHERE counted.place = 'requested'),
    micros(min(counted.first) FILTER (WHERE counted.place = 'requested')),
    max(counted.number) FILTER (WHERE counted.place = 'logs'),
    micros((SELECT requested FROM last)),
    EXISTS (
        SELECT
        FROM instant i
        WHERE i.table_id = %(table_id)s::uuid AND i.state IN ('requested', 'inflight') AND i.operation = 'compact'
    )
FROM (
    SELECT
        since.place,
        -- Some delta commits have left PostgreSQL. The trigger was reached then, but it may count more now.
        CASE WHEN count(f.table_id) > 0 THEN %(limit)s::bigint ELSE count(delta.completion_time) END AS number,
        least(min(delta.completion_time), min(f.instants_from)) AS first
    FROM last
    CROSS JOIN LATERAL (
        VALUES ('completed', last.completed), ('requested', last.requested), ('logs', last.logs)
    ) AS since (place, at)
    LEFT JOIN LATERAL (
        SELECT i.completion_time
        FROM instant i
        WHERE i.table_id = %(table_id)s::uuid
            AND i.completion_time > coalesce(since.at, moment(0))
            AND i.action = 'deltacommit'
            AND i.operation <> 'log_compact'
        ORDER BY i.completion_time
        LIMIT %(limit)s
    ) AS delta ON true
    LEFT JOIN first_event f
        ON f.table_id = %(table_id)s::uuid
        AND f.instants_from > coalesce(since.at, moment(0))
        AND delta.completion_time IS NOT NULL
    GROUP BY since.place
) AS counted
