-- The heads of the chains of answers of the named tables, and of the others. Run behind clocks/lock.sql in the same
-- transaction: only the transaction that holds the lock of a name, or the clock of a table, appends to its chain.
SELECT a.chain_id, a.number, a.hash
FROM answer_chain a
WHERE a.chain_id = ANY (
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
