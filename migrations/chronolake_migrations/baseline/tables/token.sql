-- The tokens of callers. A digest is an HMAC under a key that the database does not have (docs/decisions/0096-identity.md).
CREATE TABLE chronolake.token (
    token_id        text COLLATE "C" NOT NULL,
    created_at      timestamptz      NOT NULL,
    expires_at      timestamptz,
    acts_for_others boolean          NOT NULL,
    key_id          text COLLATE "C" NOT NULL,
    digest          text COLLATE "C" NOT NULL,
    previous_key_id text COLLATE "C",
    previous_digest text COLLATE "C",
    previous_until  timestamptz,
    revoked_at      timestamptz,
    CONSTRAINT token_unique PRIMARY KEY (token_id)
);

COMMENT ON TABLE chronolake.token IS 'The tokens of callers, without their secrets.';
COMMENT ON COLUMN chronolake.token.token_id IS 'The id, which is public; the subject is token:<id>';
COMMENT ON COLUMN chronolake.token.acts_for_others IS 'Whether the log may name another actor after the subject';
COMMENT ON COLUMN chronolake.token.key_id IS 'The key of the digest';
COMMENT ON COLUMN chronolake.token.digest IS 'HMAC-SHA256 of the token, as hexadecimal digits';
COMMENT ON COLUMN chronolake.token.previous_key_id IS 'The same of the secret before the last rotation';
COMMENT ON COLUMN chronolake.token.previous_digest IS 'The same of the secret before the last rotation';
COMMENT ON COLUMN chronolake.token.previous_until IS 'Until when that one is accepted';
COMMENT ON COLUMN chronolake.token.revoked_at IS 'When it was revoked; null if it was not';
