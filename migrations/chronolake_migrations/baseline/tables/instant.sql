CREATE TABLE chronolake.instant (
    table_id               uuid             NOT NULL,
    requested_time         timestamptz      NOT NULL,
    version                bigint           NOT NULL,
    completion_time        timestamptz,
    lease_expires_at       timestamptz,
    target                 timestamptz,
    rolled_back_by         timestamptz,
    undone_completion_time timestamptz,
    rolled_back_at         timestamptz,
    unswept_since          timestamptz,
    grace_began_at         timestamptz,
    lease_seconds          int              NOT NULL,
    schema_version         int,
    action                 text COLLATE "C" NOT NULL,
    operation              text COLLATE "C" NOT NULL,
    state                  text COLLATE "C" NOT NULL,
    writer                 text COLLATE "C" NOT NULL,
    rollback_reason        text COLLATE "C",
    rollback_cause         text COLLATE "C",
    extra_metadata         jsonb            NOT NULL,
    -- As json it has half of the bytes of jsonb.
    summary                json,
    plan                   jsonb,
    stream                 jsonb,
    executions             jsonb,
    -- Completion times are looked up by the thousand, in an index-only scan.
    CONSTRAINT instant_requested_unique PRIMARY KEY (table_id, requested_time) INCLUDE (completion_time),
    CONSTRAINT instant_completion_follows_request CHECK (completion_time > requested_time),
    CONSTRAINT instant_state CHECK (state IN ('requested', 'inflight', 'completed', 'rolled_back')),
    CONSTRAINT instant_completed_has_time CHECK ((state = 'completed') = (completion_time IS NOT NULL)),
    CONSTRAINT instant_rolled_back_has_time CHECK ((state = 'rolled_back') = (rolled_back_at IS NOT NULL)),
    -- A plan that waits for its execution has no lease.
    CONSTRAINT instant_lease_is_of_pending CHECK (lease_expires_at IS NULL OR state IN ('requested', 'inflight')),
    CONSTRAINT instant_inflight_has_lease CHECK (state <> 'inflight' OR lease_expires_at IS NOT NULL)
);

-- For the reaper: only instants with a lease, however long the timeline.
CREATE INDEX instant_lease ON chronolake.instant (lease_expires_at) WHERE lease_expires_at IS NOT NULL;
-- For restores: only pending instants and savepoints, however long the timeline.
CREATE INDEX instant_pending ON chronolake.instant (table_id, requested_time)
    WHERE state IN ('requested', 'inflight');
CREATE INDEX instant_savepoint ON chronolake.instant (table_id, requested_time) WHERE action = 'savepoint';
CREATE UNIQUE INDEX instant_completion_unique ON chronolake.instant (table_id, completion_time)
    WHERE completion_time IS NOT NULL;
CREATE INDEX instant_undone ON chronolake.instant (table_id, undone_completion_time)
    WHERE undone_completion_time IS NOT NULL;
-- For the plans that the server rolled back by itself, however long the timeline.
CREATE INDEX instant_rollback_cause ON chronolake.instant (table_id, requested_time) WHERE rollback_cause IS NOT NULL;
-- For the sweeper: only instants that wait for a sweep, however long the timeline.
CREATE INDEX instant_unswept ON chronolake.instant (table_id, grace_began_at, requested_time)
    WHERE grace_began_at IS NOT NULL AND state IN ('completed', 'rolled_back');

-- For planning and showing table services: the last one that was requested or completed of each kind, however long the
-- timeline.
CREATE INDEX instant_service ON chronolake.instant (table_id, operation, requested_time)
    WHERE operation IN ('compact', 'log_compact', 'cluster');
CREATE INDEX instant_service_completion ON chronolake.instant (table_id, operation, completion_time)
    WHERE operation IN ('compact', 'log_compact', 'cluster') AND completion_time IS NOT NULL;
CREATE INDEX instant_clean ON chronolake.instant (table_id, requested_time) WHERE action = 'clean';

COMMENT ON TABLE chronolake.instant IS 'The timeline of each table: one row per instant, in its present state.';
COMMENT ON COLUMN chronolake.instant.target IS
    'The instant that a rollback undoes or a savepoint pins, or the savepoint to which a restore goes back.';
COMMENT ON COLUMN chronolake.instant.rollback_cause IS
    'Why the server rolled a plan back by itself: conflict, a write completed in one of its file groups; expired, it was not executed in '
    'time; schema, a column by which it sorts is gone.';
COMMENT ON COLUMN chronolake.instant.rolled_back_by IS 'The rollback or restore that undid the instant.';
COMMENT ON COLUMN chronolake.instant.plan IS 'The work of the instant, such as file groups and details; null for most writes.';
COMMENT ON COLUMN chronolake.instant.undone_completion_time IS
    'The former completion time of an instant that a restore undid, or of a released savepoint.';
COMMENT ON COLUMN chronolake.instant.rolled_back_at IS
    'When the instant was rolled back or restored over, or the savepoint released.';
COMMENT ON COLUMN chronolake.instant.schema_version IS
    'The version of the schema with which the instant writes files; null for an instant that writes none.';
COMMENT ON COLUMN chronolake.instant.unswept_since IS
    'The time of the last deletion reported for the instant, or by it for its target; null after a sweep that found no file.';
COMMENT ON COLUMN chronolake.instant.stream IS
    'The stream and the checkpoint whose files the instant has. Its lease never ends: the stream has the lease.';
COMMENT ON COLUMN chronolake.instant.executions IS
    'How often its plan was taken, and the last execution that ended without success: its executor, the reason, and when, in '
    'microseconds since 1970.';
COMMENT ON COLUMN chronolake.instant.grace_began_at IS
    'When the last deletion was reported, by the steady clock: the beginning of the grace period before the sweep.';
