-- Cleans that are planned by the server, and the leases of readers (docs/decisions/0021).

ALTER TABLE chronolake.file ADD COLUMN cleaned_by timestamptz;

COMMENT ON COLUMN chronolake.file.cleaned_by IS
    'The clean whose plan says to delete it from storage; null as long as no plan of the server does.';

-- What planning a clean goes through, oldest first: not what was cleaned before, however long the history.
CREATE INDEX file_to_clean ON chronolake.file (table_id, superseded_at)
    WHERE superseded_at IS NOT NULL AND cleaned_by IS NULL;

CREATE TABLE chronolake.reader (
    table_id      uuid        NOT NULL,
    lease_id      uuid        NOT NULL,
    reader        text        NOT NULL,
    as_of         timestamptz,
    lease_seconds int         NOT NULL,
    expires_at    timestamptz NOT NULL,
    CONSTRAINT reader_lease_unique PRIMARY KEY (table_id, lease_id)
);

CREATE INDEX reader_expiry ON chronolake.reader (expires_at);

COMMENT ON TABLE chronolake.reader IS
    'Who reads a table, as of when, and until when cleans keep its files: neither log nor projection.';
COMMENT ON COLUMN chronolake.reader.as_of IS 'The completion time; null when nothing had completed.';

GRANT SELECT, INSERT, UPDATE, DELETE ON chronolake.reader TO chronolake_server;

COMMENT ON COLUMN chronolake.deleted_file.requested_time IS 'The instant that had marked the file, or the clean.';
COMMENT ON VIEW chronolake.audit_deletions IS
    'Each file that was reported deleted from storage: by whom, when, and in which rollback, or by which clean.';
