-- The clusterings of some tables that writes have cancelled since the last one that completed.
SELECT t.table_id, c.count
FROM unnest(%(table_ids)s::uuid[]) AS t (table_id)
CROSS JOIN LATERAL (
    SELECT count(*) AS count
    FROM instant i
    WHERE i.table_id = t.table_id
        AND i.operation = 'cluster'
        AND i.rollback_cause = 'conflict'
        AND i.requested_time > coalesce(
            (
                SELECT done.requested_time
                FROM instant done
                WHERE done.table_id = t.table_id AND done.operation = 'cluster' AND done.completion_time IS NOT NULL
                ORDER BY done.completion_time DESC
                LIMIT 1
            ),
            moment(0)
        )
) AS c
