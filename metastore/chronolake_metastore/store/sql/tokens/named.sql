SELECT {token}
FROM token t
JOIN token_name n ON n.token_id = t.token_id
WHERE n.name = %(name)s
ORDER BY t.revoked_at IS NOT NULL, t.revoked_at DESC, t.created_at, t.token_id
LIMIT %(limit)s
