-- The last completion of a table by a time. What was undone since had completed then all the same.
SELECT micros(greatest(
    (
        SELECT max(i.completion_time)
        FROM instant i
        WHERE i.table_id = %(table_id)s
            AND i.completion_time IS NOT NULL
            AND (%(until)s::bigint IS NULL OR i.completion_time <= moment(%(until)s::bigint))
    ),
    (
        SELECT max(i.undone_completion_time)
        FROM instant i
        WHERE i.table_id = %(table_id)s
            AND i.undone_completion_time IS NOT NULL
            AND (%(until)s::bigint IS NULL OR i.undone_completion_time <= moment(%(until)s::bigint))
    )
))
