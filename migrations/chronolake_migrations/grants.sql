-- All privileges of servers and auditors; namespace_audit.sql has those of auditors of namespaces. This file runs at each
-- migration, because a database that was restored from a dump may lack them. A privilege that a release takes away is revoked
-- by the revision of that release.

GRANT USAGE ON SCHEMA chronolake TO chronolake_server, chronolake_auditor;

-- ------------------------------------------------------------------------------------ chronolake_server

GRANT SELECT ON chronolake.alembic_version TO chronolake_server;

-- The log: rows are appended, and nothing is changed, deleted or truncated. No statement of this role names the era, the
-- transaction or the position of a row. A row of an ended era would leave with it, and one of an earlier transaction would
-- never be archived.
GRANT SELECT
    ON chronolake.event, chronolake.event_entry, chronolake.write_stat, chronolake.deleted_file, chronolake.outcome,
        chronolake.refusal
    TO chronolake_server;
DO $$
DECLARE
    log record;
BEGIN
    FOR log IN
        SELECT c.relname AS name, string_agg(quote_ident(a.attname), ', ') AS columns
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = 'chronolake'::regnamespace
            AND c.relname IN ('event', 'event_entry', 'write_stat', 'deleted_file', 'outcome', 'refusal')
            AND a.attname NOT IN ('era', 'transaction_id', 'position')
        GROUP BY c.relname
    LOOP
        EXECUTE format('GRANT INSERT (%s) ON chronolake.%I TO chronolake_server', log.columns, log.name);
    END LOOP;
END
$$;
GRANT SELECT, INSERT ON chronolake.metastore, chronolake.promotion TO chronolake_server;
-- Which rows left, and to which archive, is for the owner to say.
GRANT SELECT ON chronolake.era, chronolake.archived_era, chronolake.first_event TO chronolake_server;
-- Who has a token is for the owner to say.
GRANT SELECT ON chronolake.token, chronolake.token_name TO chronolake_server;
-- Where tables may be is for the owner to say.
GRANT SELECT ON chronolake.location TO chronolake_server;
GRANT USAGE ON SEQUENCE chronolake.event_position, chronolake.refusal_position TO chronolake_server;

-- The projections.
GRANT SELECT, INSERT, UPDATE, DELETE
    ON chronolake.namespace, chronolake.lake_table, chronolake.base_path, chronolake.schema_version,
        chronolake.planned_group, chronolake.replaced_group, chronolake.stream, chronolake.stream_checkpoint,
        chronolake.buffered_file, chronolake.role_grant
    TO chronolake_server;
-- Which instants leave is for the owner to say.
GRANT SELECT, INSERT, UPDATE ON chronolake.instant, chronolake.file TO chronolake_server;

-- Clocks and heads of chains. UPDATE on columns is enough for SELECT ... FOR UPDATE, and does not allow LOCK TABLE above
-- ROW EXCLUSIVE. So this role cannot lock other servers out. Only rebuild deletes rows; it runs as the owner of the
-- schema.
GRANT SELECT, INSERT ON chronolake.clock, chronolake.answer_chain TO chronolake_server;
GRANT UPDATE (last_time, version, hash) ON chronolake.clock TO chronolake_server;
GRANT UPDATE (number, hash) ON chronolake.answer_chain TO chronolake_server;
GRANT SELECT, UPDATE (last_time) ON chronolake.wall_clock TO chronolake_server;
GRANT SELECT, UPDATE (last_time, wall_offset_us) ON chronolake.steady_clock TO chronolake_server;
GRANT SELECT, INSERT ON chronolake.clock_jump TO chronolake_server;

-- Neither log nor projection.
GRANT SELECT, INSERT, DELETE ON chronolake.marker TO chronolake_server;
GRANT SELECT, INSERT, UPDATE, DELETE ON chronolake.reader, chronolake.publication TO chronolake_server;
GRANT SELECT, INSERT, UPDATE ON chronolake.clustering_look TO chronolake_server;

-- ----------------------------------------------------------------------------------- chronolake_auditor

-- This role is enough to write the archive of the log, and a program must not read a schema that it does not know.
GRANT SELECT ON chronolake.alembic_version TO chronolake_auditor;

GRANT SELECT
    ON chronolake.event, chronolake.event_entry, chronolake.write_stat, chronolake.deleted_file, chronolake.outcome,
        chronolake.refusal, chronolake.metastore, chronolake.base_path, chronolake.steady_clock,
        chronolake.clock_jump, chronolake.era, chronolake.archived_era, chronolake.location,
        chronolake.audit_history, chronolake.audit_commands, chronolake.audit_pending, chronolake.audit_files,
        chronolake.audit_conflicts, chronolake.audit_rollbacks, chronolake.audit_schemas, chronolake.audit_markers,
        chronolake.audit_deletions, chronolake.audit_tables, chronolake.audit_streams,
        chronolake.audit_services, chronolake.audit_tokens, chronolake.audit_grants, chronolake.audit_denials,
        chronolake.audit_credentials
    TO chronolake_auditor;

-- These functions run with the rights of their owner, so only the auditor may call them.
REVOKE EXECUTE ON FUNCTION chronolake.tables_as_of(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chronolake.tables_as_of(timestamptz) TO chronolake_auditor;
REVOKE EXECUTE ON FUNCTION chronolake.state_at(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chronolake.state_at(text) TO chronolake_auditor;
