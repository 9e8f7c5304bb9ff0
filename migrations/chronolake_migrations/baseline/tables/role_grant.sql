-- The roles of subjects (docs/decisions/0100-rights.md). The key is a pattern of names, or `table:` and the id of a table.
CREATE TABLE chronolake.role_grant (
    subject    text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    prefix     text COLLATE "C",
    table_id   uuid,
    role       text COLLATE "C" NOT NULL,
    granted_at timestamptz      NOT NULL,
    granted_by text COLLATE "C" NOT NULL,
    CONSTRAINT role_grant_unique PRIMARY KEY (subject, key),
    CONSTRAINT role_grant_of_names_or_table CHECK (num_nonnulls(prefix, table_id) = 1),
    CONSTRAINT role_grant_role_known CHECK (role IN ('reader', 'writer', 'maintainer', 'admin'))
);

CREATE INDEX role_grant_table ON chronolake.role_grant (table_id) WHERE table_id IS NOT NULL;

COMMENT ON TABLE chronolake.role_grant IS 'The present roles of subjects.';
COMMENT ON COLUMN chronolake.role_grant.subject IS '`token:<id>` or `oidc:<alias>:<sub>`';
COMMENT ON COLUMN chronolake.role_grant.prefix IS 'The role is on all names that begin so; null if it is on one table';
COMMENT ON COLUMN chronolake.role_grant.table_id IS 'The table that the role is on, whatever its name';
COMMENT ON COLUMN chronolake.role_grant.granted_by IS 'The actor of the grant';
