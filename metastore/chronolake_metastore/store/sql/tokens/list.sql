SELECT {token}
FROM token t
LEFT JOIN token_name n ON n.token_id = t.token_id
ORDER BY t.created_at, t.token_id
LIMIT %(limit)s
