SELECT {instant}
FROM unnest(%(namespaces)s::text[], %(tables)s::text[], %(requested_times)s::bigint[])
    AS named (namespace, name, requested_time)
CROSS JOIN LATERAL (
    SELECT live.table_id
    FROM lake_table live
    WHERE live.namespace = named.namespace AND live.name = named.name AND live.dropped_at IS NULL
    OFFSET 0
) AS t
CROSS JOIN LATERAL (
    SELECT *
    FROM instant begun
    WHERE begun.table_id = t.table_id AND begun.requested_time = moment(named.requested_time)
    OFFSET 0
) AS i
