-- The last completion of a table by a time. What was undone since had completed then all the same.
SELECT micros(greatest(
    (
        SELECT max(i.completion_time)
        FROM instant i
        WHERE i.table_id = :table_id
            AND i.completion_time IS NOT NULL
            AND (CAST(:until AS bigint) IS NULL OR i.completion_time <= moment(CAST(:until AS bigint)))
    ),
    (
        SELECT max(i.undone_completion_time)
        FROM instant i
        WHERE i.table_id = :table_id
            AND i.undone_completion_time IS NOT NULL
            AND (CAST(:until AS bigint) IS NULL OR i.undone_completion_time <= moment(CAST(:until AS bigint)))
    )
))
