-- The last completion time of a table up to a time. Instants that were undone later count too.
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
