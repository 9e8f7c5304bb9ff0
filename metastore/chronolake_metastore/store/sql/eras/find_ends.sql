-- Of each chain of answers the last outcome of an era. The query goes from chain to chain by the index.
WITH RECURSIVE chains AS (
    (SELECT o.chain_id FROM outcome o WHERE o.era = %(era)s ORDER BY o.chain_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT o.chain_id
        FROM outcome o
        WHERE o.era = %(era)s AND o.chain_id > chains.chain_id
        ORDER BY o.chain_id
        LIMIT 1
    )
    FROM chains
    WHERE chains.chain_id IS NOT NULL
)
SELECT chains.chain_id, last.number
FROM chains
CROSS JOIN LATERAL (
    SELECT o.number
    FROM outcome o
    WHERE o.era = %(era)s AND o.chain_id = chains.chain_id
    ORDER BY o.number DESC
    LIMIT 1
) AS last
