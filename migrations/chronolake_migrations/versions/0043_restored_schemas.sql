-- The id of this database: the cluster; the database in it, and the table of identities, which has another oid when a dump is
-- restored into the same database; and the WAL timeline. A promoted copy of the cluster has another timeline. No identity is
-- claimed by a standby, so a server on a standby deletes nothing.
CREATE OR REPLACE FUNCTION chronolake.this_database() RETURNS text
    LANGUAGE sql VOLATILE
    RETURN (SELECT system_identifier::text FROM pg_control_system())
        || '/' || (SELECT oid::text FROM pg_database WHERE datname = current_database())
        || '.' || (
            SELECT c.oid::text
            FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = 'chronolake' AND c.relname = 'metastore'
        )
        || '/' || CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END;

-- Rows of this cluster and database, in the form of before.
ALTER TABLE chronolake.metastore DISABLE TRIGGER metastore_append_only;
ALTER TABLE chronolake.promotion DISABLE TRIGGER promotion_append_only;

UPDATE chronolake.metastore
SET database = split_part(chronolake.this_database(), '/', 1) || '/' || split_part(chronolake.this_database(), '/', 2)
    || '/' || split_part(database, '/', 3)
WHERE split_part(database, '/', 1) = split_part(chronolake.this_database(), '/', 1)
    AND split_part(database, '/', 2) = split_part(split_part(chronolake.this_database(), '/', 2), '.', 1);

UPDATE chronolake.promotion
SET database = split_part(chronolake.this_database(), '/', 1) || '/' || split_part(chronolake.this_database(), '/', 2)
    || '/' || split_part(database, '/', 3)
WHERE split_part(database, '/', 1) = split_part(chronolake.this_database(), '/', 1)
    AND split_part(database, '/', 2) = split_part(split_part(chronolake.this_database(), '/', 2), '.', 1);

ALTER TABLE chronolake.metastore ENABLE ALWAYS TRIGGER metastore_append_only;
ALTER TABLE chronolake.promotion ENABLE ALWAYS TRIGGER promotion_append_only;

COMMENT ON COLUMN chronolake.metastore.database IS
    'The only PostgreSQL where files may be deleted under this identity: system identifier, database and table, WAL timeline.';
COMMENT ON COLUMN chronolake.promotion.database IS
    'System identifier, database and table, WAL timeline, as in metastore.';
