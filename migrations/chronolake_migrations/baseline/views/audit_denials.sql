-- Of a table that the caller may not read there is no table_id: its outcome is that of a missing name. A request id begins with
-- the subject (docs/decisions/0100-rights.md).
CREATE VIEW chronolake.audit_denials AS
SELECT
    r.refused_at,
    regexp_replace(r.request_id, '»[^»]*$', '') AS subject,
    r.actor,
    r.address,
    coalesce(r.context ->> 'denied', r.command) AS command,
    r.table_name,
    r.table_id,
    r.version,
    r.instant AS requested_time,
    chronolake.instant_time(r.instant, coalesce(c.tick_us, 1000)) AS requested_digits,
    r.detail,
    r.request_id
FROM chronolake.refusal r
LEFT JOIN chronolake.clock c ON c.table_id = r.table_id
WHERE r.code = 'forbidden';

COMMENT ON VIEW chronolake.audit_denials IS 'Every recorded request that was refused because its caller lacks a right.';
