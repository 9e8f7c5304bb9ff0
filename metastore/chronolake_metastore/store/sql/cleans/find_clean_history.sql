-- The last completion up to a time that changed the files of a table, and the last completion of any instant of it.
-- Instants that were undone later count too. Last, the latest requested time of the writes that had completed by the time
-- and were not undone; and the requested time from which on the database has all instants, if some have left.
SELECT
    micros(greatest(
        (
            SELECT max(i.completion_time)
            FROM instant i
            WHERE i.table_id = named.table_id
                AND i.completion_time <= named.time
                AND i.action IN ('commit', 'deltacommit', 'replacecommit', 'restore')
        ),
        (
            SELECT max(i.undone_completion_time)
            FROM instant i
            WHERE i.table_id = named.table_id
                AND i.undone_completion_time <= named.time
                AND i.action IN ('commit', 'deltacommit', 'replacecommit', 'restore')
        )
    )),
    micros(greatest(
        (SELECT max(i.completion_time) FROM instant i WHERE i.table_id = named.table_id),
        (SELECT max(i.undone_completion_time) FROM instant i WHERE i.table_id = named.table_id)
    )),
    micros((
        SELECT i.requested_time
        FROM instant i
        WHERE i.table_id = named.table_id
            AND i.completion_time <= named.time
            AND i.action IN ('commit', 'deltacommit', 'replacecommit')
        ORDER BY i.requested_time DESC
        LIMIT 1
    )),
    (SELECT micros(f.instants_from) FROM first_event f WHERE f.table_id = named.table_id)
FROM (SELECT %(table_id)s::uuid AS table_id, moment(%(time)s::bigint) AS time) AS named
