-- Lock the clocks of the tables that a group of commands names, and those given by id. The order is fixed: two groups
-- that lock the same tables wait for each other, but cannot deadlock. A command that moves first_event.instants_from locks the
-- whole table of clocks first, so this statement begins after it and sees the new time.
SELECT
    c.table_id, c.tick_us, micros(c.last_time), c.version, c.hash,
    (SELECT micros(f.instants_from) FROM first_event f WHERE f.table_id = c.table_id)
FROM clock c
WHERE c.table_id = ANY (
    ARRAY(
        SELECT (
            SELECT t.table_id
            FROM lake_table t
            WHERE t.namespace = named.namespace AND t.name = named.name AND t.dropped_at IS NULL
        )
        FROM unnest(%(namespaces)s::text[], %(tables)s::text[]) AS named (namespace, name)
    )
    || %(others)s::uuid[]
)
ORDER BY c.table_id
FOR UPDATE OF c
