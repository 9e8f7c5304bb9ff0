-- The leases of readers (docs/decisions/0021-cleans.md).
CREATE TABLE chronolake.reader (
    table_id      uuid             NOT NULL,
    lease_id      uuid             NOT NULL,
    reader        text COLLATE "C" NOT NULL,
    as_of         timestamptz,
    lease_seconds int              NOT NULL,
    expires_at    timestamptz      NOT NULL,
    follows       boolean          NOT NULL DEFAULT false,
    taken_by      text COLLATE "C" NOT NULL,
    CONSTRAINT reader_lease_unique PRIMARY KEY (table_id, lease_id)
);

CREATE INDEX reader_expiry ON chronolake.reader (expires_at);

COMMENT ON TABLE chronolake.reader IS
    'The readers of tables: cleans keep the files of as_of until the lease expires. Neither log nor projection.';
COMMENT ON COLUMN chronolake.reader.taken_by IS
    'The subject of the reader, or its address if it was unknown: each may have a number of leases.';
COMMENT ON COLUMN chronolake.reader.as_of IS 'The completion time that is read; null if no instant had completed.';
COMMENT ON COLUMN chronolake.reader.follows IS
    'Whether cleans keep the files of all later times too, for a reader that follows the changes.';
