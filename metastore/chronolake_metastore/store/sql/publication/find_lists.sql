-- The entries of lists, by instant and list, in their order; those of events before the first one that PostgreSQL has are
-- given.
SELECT micros(e.instant), e.list, e.partition_path, e.name
FROM (
    SELECT e.instant, e.list, e.ordinal, e.partition_path, e.name
    FROM unnest(%(instants)s::bigint[], %(lists)s::text[]) AS named (instant, list)
    JOIN event_entry e
        ON e.table_id = %(table_id)s
        AND e.instant = moment(named.instant)
        AND e.list = named.list
        AND e.version >= %(first_version)s
    UNION ALL
    SELECT moment(a.instant), a.list, a.ordinal, a.partition_path, a.name
    FROM json_to_recordset(%(archived)s::text::json)
        AS a (instant bigint, list text, ordinal int, partition_path text, name text)
) AS e
ORDER BY e.instant, e.list, e.ordinal
