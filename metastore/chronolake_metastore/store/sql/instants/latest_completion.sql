-- The last completion time of a table up to a time, and whether the archive may have a later one. Instants that were undone
-- later count too. Those in the archive completed before the border.
SELECT
    micros(latest.time),
    EXISTS (
        SELECT
        FROM first_event f
        WHERE f.table_id = %(table_id)s AND f.instants_from > coalesce(latest.time, '-infinity')
    )
FROM (
    SELECT greatest(
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
    ) AS time
) AS latest
