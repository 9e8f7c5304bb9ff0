-- Without the hashes, which follow from the rows, except those of the checkpoints. A request id is null where it is that
-- of the outcome that follows.
SELECT
    e.table_id, e.version, e.transaction_id::text::bigint, e.position, e.type, micros(e.instant), micros(e.time), e.actor,
    CASE WHEN o.request_id = e.request_id THEN NULL ELSE e.request_id END, e.answers, e.payload::text,
    CASE WHEN mod(e.version, %(checkpoint_every)s::bigint) = 0 THEN e.hash END
FROM event e
LEFT JOIN outcome o ON o.chain_id = e.table_id AND o.number = e.answers + 1
WHERE e.transaction_id >= %(begin)s::xid8 AND e.transaction_id < %(end)s::xid8
ORDER BY e.table_id, e.version
