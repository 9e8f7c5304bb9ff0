CREATE VIEW chronolake.audit_tokens AS
SELECT
    'token:' || (e.payload ->> 'token_id') AS subject,
    n.name,
    e.type,
    e.time,
    e.actor,
    chronolake.moment((e.payload ->> 'expires_at')::bigint) AS expires_at,
    (e.payload ->> 'acts_for_others')::boolean AS acts_for_others,
    chronolake.moment((e.payload ->> 'previous_until')::bigint) AS previous_until,
    e.version,
    e.request_id
FROM chronolake.event e
LEFT JOIN chronolake.token_name n ON n.token_id = e.payload ->> 'token_id'
WHERE e.type IN ('TokenCreated', 'TokenRotated', 'TokenRevoked');

COMMENT ON VIEW chronolake.audit_tokens IS
    'Every creation, rotation and revocation of a token: its subject, its present name, the time, the actor.';
