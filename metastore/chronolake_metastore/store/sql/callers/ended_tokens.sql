-- Those of some tokens that are not accepted any more, without a role.
SELECT named.token_id, NULL, NULL, NULL, NULL
FROM unnest(%(token_ids)s::text[]) AS named (token_id)
LEFT JOIN token t USING (token_id)
WHERE t.token_id IS NULL OR t.revoked_at IS NOT NULL OR t.expires_at <= clock_timestamp()
