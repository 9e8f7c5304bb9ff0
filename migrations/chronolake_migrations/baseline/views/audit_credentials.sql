CREATE VIEW chronolake.audit_credentials AS
SELECT
    h.table_name,
    h.table_id,
    h.version,
    h.payload ->> 'subject' AS subject,
    h.payload ->> 'access' AS access,
    h.time AS vended_at,
    chronolake.moment((h.payload ->> 'expires_at')::bigint) AS expires_at,
    h.actor,
    h.address,
    h.request_id
FROM chronolake.audit_history h
WHERE h.type = 'CredentialsVended';

COMMENT ON VIEW chronolake.audit_credentials IS
    'The keys of storage that callers got: the subject, the table, what they are for, and until when they are valid.';
