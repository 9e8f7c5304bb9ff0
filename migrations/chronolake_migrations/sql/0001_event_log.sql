-- The event log, the clock of each table, and the first projections (docs/architecture.md#event-log).
--
-- Two kinds of tables live here. The log (event, write_stat, outcome) is appended to and never changed: grants
-- refuse it to the server, triggers to everybody else. The projections (clock, namespace, lake_table, instant,
-- file) are what the log comes to; they can be dropped and rebuilt from it.

-- Roles belong to the cluster, not to the database: another database of it may have made this one, or be
-- making it at this moment.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'chronolake_server') THEN
        CREATE ROLE chronolake_server NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
END
$$;

-- Who migrates may serve. Other logins are let in by: GRANT chronolake_server TO <login>.
DO $$
BEGIN
    EXECUTE format('GRANT chronolake_server TO %I', current_user);
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'cannot grant chronolake_server to %; have an administrator grant it to the login that serves',
            current_user;
END
$$;

GRANT USAGE ON SCHEMA chronolake TO chronolake_server;

-- ---------------------------------------------------------------------------------------------- time

-- The wall clock of the database, in microseconds since 1970 (UTC). The only place where time is read.
CREATE FUNCTION chronolake.now_us() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

CREATE FUNCTION chronolake.moment(us bigint) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN timestamptz 'epoch' + us * interval '1 microsecond';

CREATE FUNCTION chronolake.micros(moment timestamptz) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (extract(epoch FROM moment) * 1000000)::bigint;

-- The latest wall time that a caller was told (GET /v1/time). No table issues a time behind it, even when the
-- clock of the machine is set back or a standby with a slower one takes over.
CREATE TABLE chronolake.wall_clock (
    only_row boolean     NOT NULL DEFAULT true,
    told     timestamptz NOT NULL,
    CONSTRAINT wall_clock_one_row PRIMARY KEY (only_row),
    CONSTRAINT wall_clock_only CHECK (only_row)
);

INSERT INTO chronolake.wall_clock (told) VALUES ('epoch');
GRANT SELECT, UPDATE ON chronolake.wall_clock TO chronolake_server;

-- ---------------------------------------------------------------------------------------------- the log

CREATE TABLE chronolake.event (
    position       bigint GENERATED ALWAYS AS IDENTITY,
    transaction_id xid8        NOT NULL DEFAULT pg_current_xact_id(),
    table_id       uuid        NOT NULL,
    version        bigint      NOT NULL,
    type           text        NOT NULL,
    instant        timestamptz,
    time           timestamptz NOT NULL,
    actor          text        NOT NULL,
    request_id     text        NOT NULL,
    payload        jsonb       NOT NULL,
    previous_hash  bytea       NOT NULL,
    hash           bytea       NOT NULL,
    -- The order across tables: position alone is not the order of commits.
    CONSTRAINT event_order PRIMARY KEY (transaction_id, position),
    CONSTRAINT event_version_unique UNIQUE (table_id, version),
    CONSTRAINT event_version_positive CHECK (version >= 1),
    CONSTRAINT event_hash_length CHECK (length(hash) = 32)
);

COMMENT ON TABLE chronolake.event IS
    'Every change of every table, in order: per table by version, across tables by (transaction_id, position). Append-only.';
COMMENT ON COLUMN chronolake.event.table_id IS 'The table; all zeros for the catalog (namespaces).';
COMMENT ON COLUMN chronolake.event.version IS 'Dense per table, from 1.';
COMMENT ON COLUMN chronolake.event.instant IS 'The requested time of the instant that changed, if one did.';
COMMENT ON COLUMN chronolake.event.time IS 'Issued by the table''s clock in the transaction that wrote this row; increasing with version.';
COMMENT ON COLUMN chronolake.event.hash IS 'SHA-256 over the event and previous_hash: the chain of the table.';

-- The files of a completed instant, as its writer reported them; bound to the event that published them, which
-- carries their digest.
CREATE TABLE chronolake.write_stat (
    table_id       uuid   NOT NULL,
    version        bigint NOT NULL,
    ordinal        int    NOT NULL,
    partition_path text   NOT NULL,
    file_id        text   NOT NULL,
    file_name      text   NOT NULL,
    kind           text   NOT NULL,
    size_bytes     bigint NOT NULL,
    records        bigint NOT NULL,
    inserts        bigint NOT NULL,
    updates        bigint NOT NULL,
    deletes        bigint NOT NULL,
    CONSTRAINT write_stat_order PRIMARY KEY (table_id, version, ordinal),
    CONSTRAINT write_stat_kind CHECK (kind IN ('base', 'log'))
);

COMMENT ON TABLE chronolake.write_stat IS 'The files of each completed instant, as written. Append-only.';

-- What each command was answered, by its idempotency key, for as long as the log exists.
CREATE TABLE chronolake.outcome (
    request_id  text     NOT NULL,
    fingerprint bytea    NOT NULL,
    table_id    uuid     NOT NULL,
    version     bigint   NOT NULL,
    status      smallint NOT NULL,
    answer      bytea    NOT NULL,
    CONSTRAINT outcome_request_unique PRIMARY KEY (request_id)
);

COMMENT ON TABLE chronolake.outcome IS 'The answer to every command that was carried out, by request id. Append-only.';
COMMENT ON COLUMN chronolake.outcome.fingerprint IS 'Of the request: another request under the same key is refused.';
COMMENT ON COLUMN chronolake.outcome.version IS 'The version of the table''s log right after the command.';

CREATE FUNCTION chronolake.refuse_change() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of chronolake.% is refused: the log is append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation',
              HINT = 'Undo by appending: roll the instant back, or restore the table.';
END
$$;

DO $$
DECLARE
    log_table text;
BEGIN
    FOREACH log_table IN ARRAY ARRAY['event', 'write_stat', 'outcome'] LOOP
        EXECUTE format(
            'CREATE TRIGGER %1$s_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON chronolake.%1$I '
            'FOR EACH STATEMENT EXECUTE FUNCTION chronolake.refuse_change()', log_table);
        -- ALWAYS: session_replication_role = replica does not switch it off.
        EXECUTE format('ALTER TABLE chronolake.%1$I ENABLE ALWAYS TRIGGER %1$s_append_only', log_table);
    END LOOP;
END
$$;

GRANT SELECT, INSERT ON chronolake.event, chronolake.write_stat, chronolake.outcome TO chronolake_server;

-- ---------------------------------------------------------------------------------------------- projections

-- One row per table, and one for the catalog: the row that a command locks, and the head of the table's log.
CREATE TABLE chronolake.clock (
    table_id  uuid        NOT NULL,
    tick_us   bigint      NOT NULL,
    last_time timestamptz NOT NULL,
    version   bigint      NOT NULL,
    hash      bytea       NOT NULL,
    CONSTRAINT clock_table_unique PRIMARY KEY (table_id),
    CONSTRAINT clock_tick CHECK (tick_us IN (1, 1000))
) WITH (fillfactor = 50); -- updated by every group of commands: room for the next row version on the same page

COMMENT ON TABLE chronolake.clock IS 'The last time and version issued to each table; locked by each command.';

CREATE TABLE chronolake.namespace (
    name       text        NOT NULL,
    properties jsonb       NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT namespace_name_unique PRIMARY KEY (name)
);

CREATE TABLE chronolake.lake_table (
    table_id   uuid        NOT NULL,
    namespace  text        NOT NULL,
    name       text        NOT NULL,
    definition jsonb       NOT NULL,
    created_at timestamptz NOT NULL,
    dropped_at timestamptz,
    CONSTRAINT lake_table_id_unique PRIMARY KEY (table_id)
);

CREATE UNIQUE INDEX lake_table_name_unique ON chronolake.lake_table (namespace, name) WHERE dropped_at IS NULL;
CREATE INDEX lake_table_dropped ON chronolake.lake_table (namespace, name) WHERE dropped_at IS NOT NULL;

COMMENT ON TABLE chronolake.lake_table IS 'The tables, dropped ones too. (TABLE is a reserved word of SQL.)';

CREATE TABLE chronolake.instant (
    table_id         uuid        NOT NULL,
    requested_time   timestamptz NOT NULL,
    completion_time  timestamptz,
    action           text        NOT NULL,
    operation        text        NOT NULL,
    state            text        NOT NULL,
    writer           text        NOT NULL,
    lease_seconds    int         NOT NULL,
    lease_expires_at timestamptz,
    rollback_reason  text,
    summary          jsonb,
    extra_metadata   jsonb       NOT NULL,
    version          bigint      NOT NULL,
    CONSTRAINT instant_requested_unique PRIMARY KEY (table_id, requested_time),
    CONSTRAINT instant_completion_unique UNIQUE (table_id, completion_time),
    CONSTRAINT instant_completion_follows_request CHECK (completion_time > requested_time),
    CONSTRAINT instant_state CHECK (state IN ('requested', 'inflight', 'completed', 'rolled_back')),
    CONSTRAINT instant_completed_has_time CHECK ((state = 'completed') = (completion_time IS NOT NULL)),
    CONSTRAINT instant_pending_has_lease
        CHECK ((state IN ('requested', 'inflight')) = (lease_expires_at IS NOT NULL))
);

-- Found by the reaper, without looking at what is long done.
CREATE INDEX instant_lease ON chronolake.instant (lease_expires_at) WHERE lease_expires_at IS NOT NULL;

COMMENT ON TABLE chronolake.instant IS 'The timeline of each table: one row per instant, in its present state.';

-- Published data files. A file is in the latest slice of its file group from completion_time until superseded_at.
CREATE TABLE chronolake.file (
    table_id        uuid        NOT NULL,
    partition_path  text        NOT NULL,
    file_id         text        NOT NULL,
    requested_time  timestamptz NOT NULL,
    file_name       text        NOT NULL,
    kind            text        NOT NULL,
    size_bytes      bigint      NOT NULL,
    records         bigint      NOT NULL,
    completion_time timestamptz NOT NULL,
    superseded_at   timestamptz,
    CONSTRAINT file_name_unique PRIMARY KEY (table_id, partition_path, file_id, requested_time, file_name)
);

-- The current snapshot costs what is live, not what has ever been.
CREATE INDEX file_live ON chronolake.file (table_id, partition_path, file_id) WHERE superseded_at IS NULL;
CREATE INDEX file_superseded ON chronolake.file (table_id, superseded_at) WHERE superseded_at IS NOT NULL;
CREATE INDEX file_completion ON chronolake.file (table_id, completion_time);

COMMENT ON TABLE chronolake.file IS 'The published data files of each table, and how long each was in the latest slice.';

GRANT SELECT, INSERT, UPDATE, DELETE
    ON chronolake.clock, chronolake.namespace, chronolake.lake_table, chronolake.instant, chronolake.file
    TO chronolake_server;
GRANT SELECT ON chronolake.alembic_version TO chronolake_server;

INSERT INTO chronolake.clock (table_id, tick_us, last_time, version, hash)
VALUES ('00000000-0000-0000-0000-000000000000', 1000, 'epoch', 0, '');
