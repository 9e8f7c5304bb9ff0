SELECT {token}
FROM token t
LEFT JOIN token_name n ON n.token_id = t.token_id
WHERE t.token_id = %(token_id)s
