SELECT o.chain_id, o.number, o.hash
FROM unnest(%(chain_ids)s::uuid[], %(numbers)s::bigint[]) AS named (chain_id, number)
JOIN outcome o USING (chain_id, number)
