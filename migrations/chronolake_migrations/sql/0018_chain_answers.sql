UPDATE chronolake.outcome o
SET chain_id = chained.chain_id, number = chained.number, hash = chained.hash
FROM unnest(%(request_id)s::text[], %(chain_id)s::uuid[], %(number)s::bigint[], %(hash)s::bytea[])
    AS chained (request_id, chain_id, number, hash)
WHERE o.request_id = chained.request_id
