-- The rights of the two roles, all of them. This file runs at each migration: a dump that was restored elsewhere may
-- have come without them. A right that a release takes away is revoked by its revision.

GRANT USAGE ON SCHEMA chronolake TO chronolake_server, chronolake_auditor;

-- ------------------------------------------------------------------------------------ chronolake_server

GRANT SELECT ON chronolake.alembic_version TO chronolake_server;

-- The log: nothing is changed, deleted or truncated.
GRANT SELECT, INSERT
    ON chronolake.event, chronolake.event_entry, chronolake.write_stat, chronolake.deleted_file, chronolake.outcome,
        chronolake.refusal, chronolake.metastore
    TO chronolake_server;

-- The projections.
GRANT SELECT, INSERT, UPDATE, DELETE
    ON chronolake.namespace, chronolake.lake_table, chronolake.base_path, chronolake.schema_version,
        chronolake.instant, chronolake.file, chronolake.planned_group, chronolake.replaced_group
    TO chronolake_server;

-- Clocks and heads: rights to columns are enough for SELECT ... FOR UPDATE, and do not allow LOCK TABLE beyond ROW
-- EXCLUSIVE. So this role cannot lock these tables against other servers. Only rebuild deletes rows; it runs as the
-- owner of the schema.
GRANT SELECT, INSERT ON chronolake.clock, chronolake.answer_chain TO chronolake_server;
GRANT UPDATE (last_time, version, hash) ON chronolake.clock TO chronolake_server;
GRANT UPDATE (number, hash) ON chronolake.answer_chain TO chronolake_server;
GRANT SELECT, UPDATE (last_time) ON chronolake.wall_clock TO chronolake_server;

-- Neither log nor projection.
GRANT SELECT, INSERT, DELETE ON chronolake.marker TO chronolake_server;
GRANT SELECT, INSERT, UPDATE, DELETE ON chronolake.reader TO chronolake_server;

-- ----------------------------------------------------------------------------------- chronolake_auditor

GRANT SELECT
    ON chronolake.event, chronolake.event_entry, chronolake.write_stat, chronolake.deleted_file, chronolake.outcome,
        chronolake.refusal, chronolake.metastore, chronolake.base_path,
        chronolake.audit_history, chronolake.audit_commands, chronolake.audit_pending, chronolake.audit_files,
        chronolake.audit_conflicts, chronolake.audit_rollbacks, chronolake.audit_schemas, chronolake.audit_markers,
        chronolake.audit_deletions, chronolake.audit_tables
    TO chronolake_auditor;

-- A function with the rights of its owner, so only named roles may call it.
REVOKE EXECUTE ON FUNCTION chronolake.tables_as_of(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chronolake.tables_as_of(timestamptz) TO chronolake_auditor;
