-- The identity of a metastore: which database may delete files of its tables (docs/decisions).
--
-- A database that was copied has the identity of its original, and knows nothing of what the original does from then on.
-- So the identity is of one PostgreSQL, and holds only there.

-- The PostgreSQL that this is: the cluster, the database in it, and the timeline of its log. A copy of the cluster that
-- was promoted has another timeline. A standby is none, as nothing is deleted from it.
CREATE FUNCTION chronolake.this_database() RETURNS text
    LANGUAGE sql VOLATILE
    RETURN (SELECT system_identifier::text FROM pg_control_system())
        || '/' || (SELECT oid::text FROM pg_database WHERE datname = current_database())
        || '/' || CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END;

CREATE TABLE chronolake.metastore (
    position     bigint GENERATED ALWAYS AS IDENTITY,
    metastore_id uuid        NOT NULL DEFAULT gen_random_uuid(),
    database     text        NOT NULL DEFAULT chronolake.this_database(),
    claimed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT metastore_order PRIMARY KEY (position),
    CONSTRAINT metastore_id_unique UNIQUE (metastore_id)
);

COMMENT ON TABLE chronolake.metastore IS
    'The identities that this metastore had; the one of the greatest position is its present one. Append-only.';
COMMENT ON COLUMN chronolake.metastore.database IS
    'The PostgreSQL that the identity is of: system identifier, database, timeline; elsewhere nothing is deleted.';

CREATE TRIGGER metastore_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.metastore
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
ALTER TABLE chronolake.metastore ENABLE ALWAYS TRIGGER metastore_append_only;

INSERT INTO chronolake.metastore DEFAULT VALUES;

GRANT SELECT, INSERT ON chronolake.metastore TO chronolake_server;
GRANT SELECT ON chronolake.metastore TO chronolake_auditor;
