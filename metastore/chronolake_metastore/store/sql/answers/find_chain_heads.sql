-- The last outcome of each chain, or of one chain. The query goes from chain to chain by the index, so its cost grows
-- with the number of chains, not with the number of outcomes.
WITH RECURSIVE chains AS (
    (
        SELECT o.chain_id
        FROM outcome o
        WHERE %(chain_id)s::uuid IS NULL OR o.chain_id = %(chain_id)s
        ORDER BY o.chain_id
        LIMIT 1
    )
    UNION ALL
    SELECT (SELECT o.chain_id FROM outcome o WHERE o.chain_id > chains.chain_id ORDER BY o.chain_id LIMIT 1)
    FROM chains
    WHERE chains.chain_id IS NOT NULL AND %(chain_id)s::uuid IS NULL
)
SELECT chains.chain_id, head.number, head.hash, t.namespace || '.' || t.name
FROM chains
CROSS JOIN LATERAL (
    SELECT o.number, o.hash FROM outcome o WHERE o.chain_id = chains.chain_id ORDER BY o.number DESC LIMIT 1
) AS head
LEFT JOIN chronolake.lake_table t ON t.table_id = chains.chain_id
ORDER BY chains.chain_id
