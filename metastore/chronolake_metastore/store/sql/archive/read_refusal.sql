SELECT
    o.chain_id, o.number, r.transaction_id::text::bigint, r.position, micros(r.refused_at), r.actor, r.address,
    r.command, r.table_name, r.table_id, r.version, micros(r.instant), r.code, r.detail, r.context::text
FROM unnest(%(chain_ids)s::uuid[], %(first_numbers)s::bigint[], %(last_numbers)s::bigint[])
    AS range (chain_id, first, last)
JOIN outcome o ON o.chain_id = range.chain_id AND o.number BETWEEN range.first AND range.last
JOIN refusal r ON r.request_id = o.request_id
ORDER BY o.chain_id, o.number
