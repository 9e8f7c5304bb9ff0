-- Of each chain of answers the first outcome that PostgreSQL has. The query goes from chain to chain by the index.
WITH RECURSIVE chains AS (
    (SELECT o.chain_id FROM chronolake.outcome o ORDER BY o.chain_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT o.chain_id FROM chronolake.outcome o WHERE o.chain_id > chains.chain_id ORDER BY o.chain_id LIMIT 1
    )
    FROM chains
    WHERE chains.chain_id IS NOT NULL
)
SELECT chains.chain_id, first.number
FROM chains
CROSS JOIN LATERAL (
    SELECT o.number FROM chronolake.outcome o WHERE o.chain_id = chains.chain_id ORDER BY o.number LIMIT 1
) AS first
