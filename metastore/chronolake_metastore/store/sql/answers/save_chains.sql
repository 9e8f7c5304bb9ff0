INSERT INTO answer_chain (chain_id, number, hash)
SELECT chain_id, number, hash
FROM unnest(%(chain_id)s::uuid[], %(number)s::bigint[], %(hash)s::bytea[]) AS saved (chain_id, number, hash)
ON CONFLICT ON CONSTRAINT answer_chain_unique DO UPDATE
SET number = excluded.number, hash = excluded.hash
