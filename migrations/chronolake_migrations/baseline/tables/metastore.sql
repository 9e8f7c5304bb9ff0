-- The identity of a metastore: which database may delete files of its tables
-- (docs/decisions/0029-deletion-guard.md). A copied database has the identity of its original, and does not know
-- what the original does from then on. So an identity is of one PostgreSQL, and is valid there only.
CREATE TABLE chronolake.metastore (
    position     bigint GENERATED ALWAYS AS IDENTITY,
    metastore_id uuid             NOT NULL DEFAULT gen_random_uuid(),
    database     text COLLATE "C" NOT NULL DEFAULT chronolake.this_database(),
    claimed_at   timestamptz      NOT NULL DEFAULT clock_timestamp(),
    -- The embedded PostgreSQL has the place of its data folder in a setting of each connection. A copied folder has the
    -- system identifier of its original, and another place.
    place        text COLLATE "C" DEFAULT nullif(current_setting('chronolake.place', true), ''),
    CONSTRAINT metastore_order PRIMARY KEY (position),
    CONSTRAINT metastore_id_unique UNIQUE (metastore_id)
);

COMMENT ON TABLE chronolake.metastore IS
    'The identities that this metastore had; the one of the greatest position is its present one. Append-only.';
COMMENT ON COLUMN chronolake.metastore.database IS
    'The PostgreSQL that the identity is of: system identifier, database, timeline; elsewhere nothing is deleted.';
COMMENT ON COLUMN chronolake.metastore.place IS
    'The place of the data folder of an embedded PostgreSQL, as a digest; null for any other PostgreSQL.';

CREATE TRIGGER metastore_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.metastore
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
-- ALWAYS: session_replication_role = replica does not switch it off.
ALTER TABLE chronolake.metastore ENABLE ALWAYS TRIGGER metastore_append_only;

INSERT INTO chronolake.metastore DEFAULT VALUES;
