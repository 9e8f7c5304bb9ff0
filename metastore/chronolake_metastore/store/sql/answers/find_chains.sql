-- The heads of the chains of answers of the named tables, and of the chains given by id. It runs after clocks/lock.sql
-- in the same transaction: only the transaction that holds the lock on a name, or on the clock of a table, appends to
-- the chain.
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
