SELECT
    o.chain_id, o.number, o.request_id, o.fingerprint, o.table_id, o.version, o.code, o.result, o.dialect,
    o.answer_digest, micros(o.recorded_at), o.command, o.actor, o.address,
    CASE WHEN mod(o.number, %(checkpoint_every)s::bigint) = 0 THEN o.hash END
FROM unnest(%(chain_ids)s::uuid[], %(first_numbers)s::bigint[], %(last_numbers)s::bigint[])
    AS range (chain_id, first, last)
JOIN outcome o ON o.chain_id = range.chain_id AND o.number BETWEEN range.first AND range.last
ORDER BY o.chain_id, o.number
