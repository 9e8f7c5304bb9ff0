-- The named instants. For those that a command ends: whether they have markers, and whether files were reported deleted.
SELECT
    {instant},
    CASE
        WHEN named.ends
        THEN EXISTS (SELECT FROM marker m WHERE m.table_id = i.table_id AND m.requested_time = i.requested_time)
    END,
    CASE
        WHEN named.ends
        THEN EXISTS (SELECT FROM deleted_file d WHERE d.table_id = i.table_id AND d.requested_time = i.requested_time)
    END
FROM unnest(%(namespaces)s::text[], %(tables)s::text[], %(requested_times)s::bigint[], %(ends)s::boolean[])
    AS named (namespace, name, requested_time, ends)
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
