-- The last completion time of a table up to a time, and whether the archive may have a later one. Instants that were undone
-- later count too. Those in the archive alone completed before the first event that is here.
SELECT
    micros(latest.time),
    EXISTS (
        SELECT
        FROM first_event f
        LEFT JOIN event e ON e.table_id = f.table_id AND e.version = f.version AND e.time <= latest.time
        WHERE f.table_id = %(table_id)s AND f.instants_from IS NOT NULL AND e.version IS NULL
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
