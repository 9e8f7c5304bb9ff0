-- What there was before the chains, in the order in which it is put into them.
SELECT
    o.request_id, o.fingerprint, o.table_id, o.version, o.status, sha256(o.answer),
    chronolake.micros(o.recorded_at), o.command, o.actor, o.address,
    r.request_id IS NOT NULL,
    r.request_id, chronolake.micros(r.refused_at), r.actor, r.address, r.command, r.table_name, r.table_id, r.version,
    chronolake.micros(r.instant), r.status, r.code, r.detail, r.context::text
FROM chronolake.outcome o
LEFT JOIN chronolake.refusal r ON r.request_id = o.request_id
ORDER BY o.recorded_at NULLS FIRST, o.version, o.request_id
