-- The entries of lists, by instant and list, in their order.
SELECT micros(e.instant), e.list, e.partition_path, e.name
FROM unnest(%(instants)s::bigint[], %(lists)s::text[]) AS named (instant, list)
JOIN event_entry e ON e.table_id = %(table_id)s AND e.instant = moment(named.instant) AND e.list = named.list
ORDER BY e.instant, e.list, e.ordinal
