-- This PostgreSQL: the cluster, the database in it, and the timeline of its log. A copy of the cluster that was
-- promoted has another timeline. A standby is never the database of an identity: nothing is deleted from it.
CREATE FUNCTION chronolake.this_database() RETURNS text
    LANGUAGE sql VOLATILE
    RETURN (SELECT system_identifier::text FROM pg_control_system())
        || '/' || (SELECT oid::text FROM pg_database WHERE datname = current_database())
        || '/' || CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END;
