-- Refusals and their outcomes in the log, and the history for auditors (docs/audit.md).
--
-- Expand: servers of the release before go on; what they write has nulls where they know nothing.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'chronolake_auditor') THEN
        CREATE ROLE chronolake_auditor NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
END
$$;

GRANT USAGE ON SCHEMA chronolake TO chronolake_auditor;

-- ---------------------------------------------------------------------------------------------- time

-- Hudi's digits for a moment, as the server writes them: 17 for a tick of a millisecond, 20 for a microsecond. A
-- finer time is cut, not rounded.
CREATE FUNCTION chronolake.instant_time(moment timestamptz, tick_us bigint) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN to_char(moment AT TIME ZONE 'UTC', CASE tick_us WHEN 1 THEN 'YYYYMMDDHH24MISSUS' ELSE 'YYYYMMDDHH24MISSMS' END);

-- The moment that 17 or 20 digits name.
CREATE FUNCTION chronolake.moment_of(digits text) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN make_timestamptz(
        substr(digits, 1, 4)::int, substr(digits, 5, 2)::int, substr(digits, 7, 2)::int,
        substr(digits, 9, 2)::int, substr(digits, 11, 2)::int, 0, 'UTC'
    ) + rpad(substr(digits, 13), 8, '0')::bigint * interval '1 microsecond';

-- ---------------------------------------------------------------------------------------------- the log

-- A refusal may concern no table.
ALTER TABLE chronolake.outcome
    ALTER COLUMN table_id DROP NOT NULL,
    ALTER COLUMN version DROP NOT NULL,
    ADD COLUMN recorded_at timestamptz,
    ADD COLUMN command text,
    ADD COLUMN actor text,
    ADD COLUMN address text,
    ADD CONSTRAINT outcome_version_of_table CHECK ((table_id IS NULL) = (version IS NULL)),
    ADD CONSTRAINT outcome_success_has_table CHECK (status >= 400 OR table_id IS NOT NULL);

-- Rows lie in the order of their times, so the index costs next to nothing.
CREATE INDEX outcome_recorded ON chronolake.outcome USING brin (recorded_at);

COMMENT ON TABLE chronolake.outcome IS
    'The answer to every command that was decided, refusals too, by request id. Append-only.';
COMMENT ON COLUMN chronolake.outcome.address IS
    'Where the connection came from; a proxy''s, behind a proxy. Not part of the hash chain.';

CREATE TABLE chronolake.refusal (
    position       bigint GENERATED ALWAYS AS IDENTITY,
    transaction_id xid8        NOT NULL DEFAULT pg_current_xact_id(),
    request_id     text        NOT NULL,
    refused_at     timestamptz NOT NULL,
    actor          text        NOT NULL,
    address        text,
    command        text        NOT NULL,
    table_name     text,
    table_id       uuid,
    version        bigint,
    instant        timestamptz,
    status         smallint    NOT NULL,
    code           text        NOT NULL,
    detail         text        NOT NULL,
    context        jsonb       NOT NULL,
    CONSTRAINT refusal_request_unique PRIMARY KEY (request_id),
    CONSTRAINT refusal_version_of_table CHECK ((table_id IS NULL) = (version IS NULL)),
    CONSTRAINT refusal_status CHECK (status BETWEEN 400 AND 499),
    CONSTRAINT refusal_detail_bounded CHECK (length(detail) <= 1000),
    CONSTRAINT refusal_context_bounded CHECK (octet_length(context::text) <= 16384)
);

CREATE INDEX refusal_table ON chronolake.refusal (table_id, refused_at);
CREATE INDEX refusal_time ON chronolake.refusal USING brin (refused_at);

COMMENT ON TABLE chronolake.refusal IS
    'Every command that was decided against, outside the streams of the tables. Append-only.';
COMMENT ON COLUMN chronolake.refusal.refused_at IS 'The wall clock of the database.';
COMMENT ON COLUMN chronolake.refusal.table_name IS 'The table that the command named; null for a namespace.';
COMMENT ON COLUMN chronolake.refusal.table_id IS
    'The table of that name then, if there was one; all zeros for the catalog (namespaces).';
COMMENT ON COLUMN chronolake.refusal.version IS 'The version of the table''s log that it was decided on.';
COMMENT ON COLUMN chronolake.refusal.context IS 'Long texts and lists are cut; outcome.answer has it whole.';

CREATE TRIGGER refusal_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.refusal
    FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change();
ALTER TABLE chronolake.refusal ENABLE ALWAYS TRIGGER refusal_append_only;

GRANT SELECT, INSERT ON chronolake.refusal TO chronolake_server;

-- ---------------------------------------------------------------------------------------------- views

-- Files that an instant took out of the latest slices are found by its completion time.
CREATE INDEX IF NOT EXISTS file_superseded ON chronolake.file (table_id, superseded_at) WHERE superseded_at IS NOT NULL;

CREATE VIEW chronolake.audit_history AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    e.table_id,
    e.version,
    e.type,
    e.time,
    chronolake.instant_time(e.time, c.tick_us) AS time_digits,
    e.instant AS requested_time,
    chronolake.instant_time(e.instant, c.tick_us) AS requested_digits,
    i.writer,
    e.actor,
    o.address,
    e.request_id,
    e.payload,
    e.transaction_id,
    e.position
FROM chronolake.event e
JOIN chronolake.clock c ON c.table_id = e.table_id
LEFT JOIN chronolake.lake_table t ON t.table_id = e.table_id
LEFT JOIN chronolake.instant i ON i.table_id = e.table_id AND i.requested_time = e.instant
LEFT JOIN chronolake.outcome o ON o.request_id = e.request_id;

COMMENT ON VIEW chronolake.audit_history IS 'Every event of every table, with names and readable times.';

CREATE VIEW chronolake.audit_commands AS
SELECT
    o.recorded_at,
    coalesce(o.actor, e.actor) AS actor,
    o.address,
    o.command,
    coalesce(t.namespace || '.' || t.name, r.table_name) AS table_name,
    o.table_id,
    o.version,
    coalesce(e.instant, r.instant) AS requested_time,
    chronolake.instant_time(coalesce(e.instant, r.instant), coalesce(c.tick_us, 1000)) AS requested_digits,
    e.type AS event_type,
    o.status,
    r.code,
    o.request_id
FROM chronolake.outcome o
LEFT JOIN chronolake.event e
    ON e.table_id = o.table_id AND e.version = o.version AND e.request_id = o.request_id
LEFT JOIN chronolake.refusal r ON r.request_id = o.request_id
LEFT JOIN chronolake.lake_table t ON t.table_id = o.table_id
LEFT JOIN chronolake.clock c ON c.table_id = o.table_id;

COMMENT ON VIEW chronolake.audit_commands IS 'Who asked for what, from where, and what became of it.';

-- Whether a lease has ended goes by the wall clock, which is never behind what was told.
CREATE VIEW chronolake.audit_pending AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    i.table_id,
    i.requested_time,
    chronolake.instant_time(i.requested_time, c.tick_us) AS requested_digits,
    i.state,
    i.action,
    i.operation,
    i.writer,
    e.actor AS last_actor,
    e.time AS last_heard_at,
    i.lease_seconds,
    i.lease_expires_at,
    CASE WHEN i.lease_expires_at > wall.time THEN 'live' ELSE 'expired' END AS lease_state,
    wall.time - i.lease_expires_at AS expired_for,
    wall.time - i.requested_time AS running_for
FROM chronolake.instant i
JOIN chronolake.lake_table t ON t.table_id = i.table_id AND t.dropped_at IS NULL
JOIN chronolake.clock c ON c.table_id = i.table_id
JOIN chronolake.event e ON e.table_id = i.table_id AND e.version = i.version
CROSS JOIN (SELECT greatest(chronolake.moment(chronolake.now_us()), told) AS time FROM chronolake.wall_clock) AS wall
WHERE i.state IN ('requested', 'inflight');

COMMENT ON VIEW chronolake.audit_pending IS
    'The instants that are requested or inflight now, in tables that are not dropped, and their leases.';

CREATE VIEW chronolake.audit_files AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    i.table_id,
    i.requested_time,
    chronolake.instant_time(i.requested_time, c.tick_us) AS requested_digits,
    i.completion_time,
    chronolake.instant_time(i.completion_time, c.tick_us) AS completion_digits,
    changed.change,
    changed.partition_path,
    changed.file_id,
    changed.file_name,
    changed.kind,
    changed.size_bytes,
    changed.records
FROM chronolake.instant i
JOIN chronolake.lake_table t ON t.table_id = i.table_id
JOIN chronolake.clock c ON c.table_id = i.table_id
CROSS JOIN LATERAL (
    SELECT 'added' AS change, f.partition_path, f.file_id, f.file_name, f.kind, f.size_bytes, f.records
    FROM chronolake.file f
    WHERE f.table_id = i.table_id AND f.completion_time = i.completion_time
    UNION ALL
    SELECT 'removed', f.partition_path, f.file_id, f.file_name, f.kind, f.size_bytes, f.records
    FROM chronolake.file f
    WHERE f.table_id = i.table_id AND f.superseded_at = i.completion_time
) AS changed;

COMMENT ON VIEW chronolake.audit_files IS
    'The files that each completed instant added to the latest slices of its table, and those that it removed.';

CREATE VIEW chronolake.audit_conflicts AS
SELECT
    r.refused_at,
    r.table_name,
    r.table_id,
    r.instant AS loser_requested_time,
    chronolake.instant_time(r.instant, c.tick_us) AS loser_digits,
    loser.writer AS loser_writer,
    r.actor AS loser_actor,
    r.address AS loser_address,
    winner.requested_time AS winner_requested_time,
    r.context ->> 'winner' AS winner_digits,
    winner.writer AS winner_writer,
    winner.completion_time AS winner_completion_time,
    r.context ->> 'rebase_on' AS winner_completion_digits,
    (r.context ->> 'file_groups_in_common')::bigint AS file_groups_in_common,
    r.context -> 'file_groups' AS file_groups,
    r.request_id
FROM chronolake.refusal r
JOIN chronolake.clock c ON c.table_id = r.table_id
LEFT JOIN chronolake.instant loser ON loser.table_id = r.table_id AND loser.requested_time = r.instant
LEFT JOIN chronolake.instant winner
    ON winner.table_id = r.table_id AND winner.requested_time = chronolake.moment_of(r.context ->> 'winner')
WHERE r.code = 'write-conflict';

COMMENT ON VIEW chronolake.audit_conflicts IS 'Every completion that was refused for a conflict, and who had won.';

-- A function, for the moment has to be given. It runs with its owner's rights: who may call it may not read the
-- projections that it reads. Its names are bound now, so no search_path of a caller changes what it does.
CREATE FUNCTION chronolake.tables_as_of(at timestamptz)
    RETURNS TABLE (
        table_name text,
        table_id uuid,
        table_type text,
        base_path text,
        created_at timestamptz,
        dropped_at timestamptz,
        requested_time timestamptz,
        requested_digits text,
        completion_time timestamptz,
        completion_digits text,
        files bigint,
        size_bytes numeric,
        records numeric
    )
    LANGUAGE sql STABLE SECURITY DEFINER
BEGIN ATOMIC
    SELECT
        t.namespace || '.' || t.name,
        t.table_id,
        t.definition ->> 'type',
        t.definition ->> 'base_path',
        t.created_at,
        t.dropped_at,
        latest.requested_time,
        chronolake.instant_time(latest.requested_time, c.tick_us),
        latest.completion_time,
        chronolake.instant_time(latest.completion_time, c.tick_us),
        live.files,
        live.size_bytes,
        live.records
    FROM chronolake.lake_table t
    JOIN chronolake.clock c ON c.table_id = t.table_id
    LEFT JOIN LATERAL (
        SELECT i.requested_time, i.completion_time
        FROM chronolake.instant i
        WHERE i.table_id = t.table_id AND i.completion_time <= at
        ORDER BY i.completion_time DESC
        LIMIT 1
    ) AS latest ON true
    CROSS JOIN LATERAL (
        SELECT
            count(*) AS files,
            coalesce(sum(f.size_bytes), 0) AS size_bytes,
            coalesce(sum(f.records) FILTER (WHERE f.kind = 'base'), 0) AS records
        FROM chronolake.file f
        WHERE f.table_id = t.table_id
            AND f.completion_time <= at
            AND (f.superseded_at IS NULL OR f.superseded_at > at)
    ) AS live
    WHERE t.created_at <= at AND (t.dropped_at IS NULL OR t.dropped_at > at)
    ORDER BY 1, t.created_at;
END;

COMMENT ON FUNCTION chronolake.tables_as_of(timestamptz) IS
    'The tables that there were at a moment, those dropped since too: last completed instant, live files.';

REVOKE EXECUTE ON FUNCTION chronolake.tables_as_of(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION chronolake.tables_as_of(timestamptz) TO chronolake_auditor;

GRANT SELECT
    ON chronolake.event, chronolake.write_stat, chronolake.outcome, chronolake.refusal,
        chronolake.audit_history, chronolake.audit_commands, chronolake.audit_pending, chronolake.audit_files,
        chronolake.audit_conflicts
    TO chronolake_auditor;
