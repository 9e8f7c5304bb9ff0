-- The entries of the named lists, in the order of each list.
SELECT e.table_id, micros(e.instant), e.list, e.ordinal, e.version, e.partition_path, e.name
FROM unnest(%(table_ids)s::uuid[], %(instants)s::bigint[], %(lists)s::text[]) AS named (table_id, instant, list)
JOIN event_entry e ON e.table_id = named.table_id AND e.instant = moment(named.instant) AND e.list = named.list
ORDER BY e.table_id, e.instant, e.list, e.ordinal
