-- Deletions of files that were marked, and what refuses to end an instant past its markers (docs/decisions/0019).
--
-- Expand: servers of the release before know nothing of it; stop those first, for they complete without asking.

CREATE TABLE chronolake.deleted_file (
    table_id       uuid        NOT NULL,
    version        bigint      NOT NULL,
    ordinal        int         NOT NULL,
    requested_time timestamptz NOT NULL,
    partition_path text        NOT NULL,
    file_name      text        NOT NULL,
    -- Not led by the table: who asks for an instant of it must find no other index than the one below.
    CONSTRAINT deleted_file_order PRIMARY KEY (version, table_id, ordinal)
);

CREATE INDEX deleted_file_of_instant ON chronolake.deleted_file
    (table_id, requested_time, partition_path, file_name);

COMMENT ON TABLE chronolake.deleted_file IS
    'The files that were reported deleted from storage, under the versions of the events that say so. Append-only.';
COMMENT ON COLUMN chronolake.deleted_file.requested_time IS 'The instant that had marked the file.';

CREATE TRIGGER deleted_file_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.deleted_file
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
ALTER TABLE chronolake.deleted_file ENABLE ALWAYS TRIGGER deleted_file_append_only;

GRANT SELECT, INSERT ON chronolake.deleted_file TO chronolake_server;

-- Whoever ends an instant that had no markers looks again when nobody can create one any more, and breaks off here.
CREATE FUNCTION chronolake.refuse_late_marker(requested_time timestamptz) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the instant of % has markers by now', requested_time
        USING ERRCODE = 'check_violation', CONSTRAINT = 'marker_seen';
END
$$;

CREATE VIEW chronolake.audit_deletions AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    d.table_id,
    d.requested_time,
    chronolake.instant_time(d.requested_time, c.tick_us) AS requested_digits,
    CASE WHEN e.instant <> d.requested_time THEN e.instant END AS rollback_requested_time,
    CASE WHEN e.instant <> d.requested_time THEN chronolake.instant_time(e.instant, c.tick_us) END AS rollback_digits,
    d.partition_path,
    d.file_name,
    e.time AS reported_at,
    e.actor,
    e.request_id,
    d.version
FROM chronolake.deleted_file d
JOIN chronolake.event e ON e.table_id = d.table_id AND e.version = d.version
JOIN chronolake.lake_table t ON t.table_id = d.table_id
JOIN chronolake.clock c ON c.table_id = d.table_id;

COMMENT ON VIEW chronolake.audit_deletions IS
    'Each file that was marked and then reported deleted from storage: by whom, when, and in which rollback if any.';

GRANT SELECT ON chronolake.deleted_file, chronolake.audit_deletions TO chronolake_auditor;
