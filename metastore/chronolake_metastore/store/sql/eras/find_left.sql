-- Of archived outcomes those that have left the database: each is before the first that it has of the chain.
SELECT archived.request_id
FROM unnest(%(request_ids)s::text[], %(chain_ids)s::uuid[], %(numbers)s::bigint[])
    AS archived (request_id, chain_id, number)
WHERE archived.number < coalesce(
    (SELECT o.number FROM outcome o WHERE o.chain_id = archived.chain_id ORDER BY o.number LIMIT 1),
    (SELECT a.number + 1 FROM answer_chain a WHERE a.chain_id = archived.chain_id)
)
