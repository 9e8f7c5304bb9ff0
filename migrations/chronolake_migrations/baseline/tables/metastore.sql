-- The identity of a metastore: which database may delete files of its tables
-- (docs/decisions/0029-deletion-guard.md). A copied database has the identity of its original, but does not get the
-- later changes of the original. So an identity belongs to one PostgreSQL, and is valid only there.
CREATE TABLE chronolake.metastore (
    position     bigint GENERATED ALWAYS AS IDENTITY,
    metastore_id uuid             NOT NULL DEFAULT gen_random_uuid(),
    database     text COLLATE "C" NOT NULL DEFAULT chronolake.this_database(),
    claimed_at   timestamptz      NOT NULL DEFAULT clock_timestamp(),
    -- Connections to the embedded PostgreSQL have the path of its data folder in a setting. A copied folder has the
    -- same system identifier as its original, but another path.
    place        text COLLATE "C" DEFAULT nullif(current_setting('chronolake.place', true), ''),
    CONSTRAINT metastore_order PRIMARY KEY (position),
    CONSTRAINT metastore_id_unique UNIQUE (metastore_id)
);

COMMENT ON TABLE chronolake.metastore IS
    'The identities of this metastore; the one with the highest position is the present one. Append-only.';
COMMENT ON COLUMN chronolake.metastore.database IS
    'The only PostgreSQL where files may be deleted under this identity: system identifier, database and table, WAL timeline.';
COMMENT ON COLUMN chronolake.metastore.place IS
    'A digest of the path of the data folder of an embedded PostgreSQL; null for any other PostgreSQL.';

CREATE TRIGGER metastore_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.metastore
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
-- ALWAYS: session_replication_role = replica does not switch it off.
ALTER TABLE chronolake.metastore ENABLE ALWAYS TRIGGER metastore_append_only;

INSERT INTO chronolake.metastore DEFAULT VALUES;
