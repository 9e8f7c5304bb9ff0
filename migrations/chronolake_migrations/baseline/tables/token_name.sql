-- Readable names of tokens. A name may be that of a person, so it can be changed and deleted, and is not in the log.
CREATE TABLE chronolake.token_name (
    token_id text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    CONSTRAINT token_name_unique PRIMARY KEY (token_id)
);

COMMENT ON TABLE chronolake.token_name IS 'Readable names of tokens, which may change. Neither log nor projection.';
