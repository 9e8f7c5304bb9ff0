-- The chains of answers that have outcomes after the archived ones: the last number to archive, and its hash. A chain is
-- taken to the head that the first event after the archived versions carries, or else to its end. So the outcomes of a
-- run are those that its events carry and those of its own requests. The query goes from chain to chain by the index.
WITH RECURSIVE chains AS (
    (SELECT o.chain_id FROM outcome o ORDER BY o.chain_id LIMIT 1)
    UNION ALL
    SELECT (SELECT o.chain_id FROM outcome o WHERE o.chain_id > chains.chain_id ORDER BY o.chain_id LIMIT 1)
    FROM chains
    WHERE chains.chain_id IS NOT NULL
),
ends AS (
    SELECT chains.chain_id, least(head.number, later.answers) AS number
    FROM chains
    CROSS JOIN LATERAL (
        SELECT o.number FROM outcome o WHERE o.chain_id = chains.chain_id ORDER BY o.number DESC LIMIT 1
    ) AS head
    LEFT JOIN unnest(%(table_ids)s::uuid[], %(versions)s::bigint[]) AS taken (table_id, version)
        ON taken.table_id = chains.chain_id
    LEFT JOIN LATERAL (
        SELECT e.answers
        FROM event e
        WHERE e.table_id = chains.chain_id AND e.version > coalesce(taken.version, 0) AND e.answers IS NOT NULL
        ORDER BY e.version
        LIMIT 1
    ) AS later ON true
)
SELECT o.chain_id, o.number, o.hash
FROM ends
LEFT JOIN unnest(%(chain_ids)s::uuid[], %(numbers)s::bigint[]) AS archived (chain_id, number)
    ON archived.chain_id = ends.chain_id
JOIN outcome o ON o.chain_id = ends.chain_id AND o.number = ends.number
WHERE ends.number > coalesce(archived.number, 0)
ORDER BY o.chain_id
