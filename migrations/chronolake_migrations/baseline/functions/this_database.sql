-- The id of this database: the cluster; the database in it, and the table of identities, which has another oid when a dump is
-- restored into the same database; and the WAL timeline. A promoted copy of the cluster has another timeline. No identity is
-- claimed by a standby, so a server on a standby deletes nothing.
CREATE FUNCTION chronolake.this_database() RETURNS text
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
