-- A page of outcomes in the order of their chains, up to the end of the last chain, each with its refusal. The page is
-- cut first, and then the refusal of each of its rows is looked up by the index. Of a result that is JSON, however large,
-- only the digest is read (store/packed_results.py).
WITH page AS (
    SELECT *
    FROM outcome o
    WHERE (o.chain_id, o.number) > (%(after_chain)s::uuid, %(after_number)s::bigint)
        AND o.chain_id <= %(last_chain)s::uuid
    ORDER BY o.chain_id, o.number
    LIMIT %(limit)s
)
SELECT
    CASE WHEN substr(page.result, 1, 1) = '\x01' THEN page.result END,
    page.chain_id, page.number, page.hash,
    page.request_id, page.fingerprint, page.table_id, page.version, page.code, sha256(page.result), page.dialect,
    page.answer_digest, micros(page.recorded_at), page.command, page.actor, page.address,
    refusal.request_id IS NOT NULL,
    refusal.request_id, micros(refusal.refused_at), refusal.actor, refusal.address, refusal.command, refusal.table_name,
    refusal.table_id, refusal.version, micros(refusal.instant), refusal.code, refusal.detail,
    refusal.transaction_id::text::bigint, refusal.context::text
FROM page
LEFT JOIN refusal ON refusal.request_id = page.request_id
ORDER BY page.chain_id, page.number
