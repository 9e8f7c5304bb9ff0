-- For tables and a time each: the last change of the table's files by that time, and the table's last completion of all.
-- What was undone since had completed then all the same.
SELECT
    t.table_id,
    named.time,
    micros(greatest(
        (
            SELECT max(i.completion_time)
            FROM instant i
            WHERE i.table_id = t.table_id
                AND i.completion_time <= moment(named.time)
                AND i.action IN ('commit', 'deltacommit', 'replacecommit', 'restore')
        ),
        (
            SELECT max(i.undone_completion_time)
            FROM instant i
            WHERE i.table_id = t.table_id
                AND i.undone_completion_time <= moment(named.time)
                AND i.action IN ('commit', 'deltacommit', 'replacecommit', 'restore')
        )
    )),
    micros(greatest(
        (SELECT max(i.completion_time) FROM instant i WHERE i.table_id = t.table_id),
        (SELECT max(i.undone_completion_time) FROM instant i WHERE i.table_id = t.table_id)
    ))
FROM unnest(%(namespaces)s::text[], %(tables)s::text[], %(times)s::bigint[]) AS named (namespace, name, time)
JOIN lake_table t ON t.namespace = named.namespace AND t.name = named.name AND t.dropped_at IS NULL
