SELECT
    t.token_id, micros(t.created_at), micros(t.expires_at), t.acts_for_others, t.key_id, t.digest, t.previous_key_id,
    t.previous_digest, micros(t.previous_until), micros(t.revoked_at), n.name
FROM token t
JOIN token_name n ON n.token_id = t.token_id
WHERE n.name = %(name)s
ORDER BY t.revoked_at IS NOT NULL, t.revoked_at DESC, t.created_at, t.token_id
LIMIT %(limit)s
