CREATE TABLE chronolake.instant (
    table_id               uuid             NOT NULL,
    requested_time         timestamptz      NOT NULL,
    completion_time        timestamptz,
    action                 text COLLATE "C" NOT NULL,
    operation              text COLLATE "C" NOT NULL,
    state                  text COLLATE "C" NOT NULL,
    writer                 text COLLATE "C" NOT NULL,
    lease_seconds          int              NOT NULL,
    lease_expires_at       timestamptz,
    rollback_reason        text COLLATE "C",
    summary                jsonb,
    extra_metadata         jsonb            NOT NULL,
    version                bigint           NOT NULL,
    target                 timestamptz,
    rolled_back_by         timestamptz,
    plan                   jsonb,
    undone_completion_time timestamptz,
    schema_version         int,
    unswept_since          timestamptz,
    -- Completion times are looked up by the thousand: from this index alone.
    CONSTRAINT instant_requested_unique PRIMARY KEY (table_id, requested_time) INCLUDE (completion_time),
    CONSTRAINT instant_completion_follows_request CHECK (completion_time > requested_time),
    CONSTRAINT instant_state CHECK (state IN ('requested', 'inflight', 'completed', 'rolled_back')),
    CONSTRAINT instant_completed_has_time CHECK ((state = 'completed') = (completion_time IS NOT NULL)),
    -- A plan that waits for its execution has no lease.
    CONSTRAINT instant_lease_is_of_pending CHECK (lease_expires_at IS NULL OR state IN ('requested', 'inflight')),
    CONSTRAINT instant_inflight_has_lease CHECK (state <> 'inflight' OR lease_expires_at IS NOT NULL)
);

-- For the reaper, without a look at instants that ended long ago.
CREATE INDEX instant_lease ON chronolake.instant (lease_expires_at) WHERE lease_expires_at IS NOT NULL;
-- For restores: pending instants and savepoints, without a look through the whole timeline.
CREATE INDEX instant_pending ON chronolake.instant (table_id, requested_time)
    WHERE state IN ('requested', 'inflight');
CREATE INDEX instant_savepoint ON chronolake.instant (table_id, requested_time)
    WHERE action = 'savepoint' AND state = 'completed';
CREATE UNIQUE INDEX instant_completion_unique ON chronolake.instant (table_id, completion_time)
    WHERE completion_time IS NOT NULL;
CREATE INDEX instant_undone ON chronolake.instant (table_id, undone_completion_time)
    WHERE undone_completion_time IS NOT NULL;
-- For the sweeper: only instants that wait for a sweep, however long the timeline.
CREATE INDEX instant_unswept ON chronolake.instant (table_id, unswept_since, requested_time)
    WHERE unswept_since IS NOT NULL AND state IN ('completed', 'rolled_back');

COMMENT ON TABLE chronolake.instant IS 'The timeline of each table: one row per instant, in its present state.';
COMMENT ON COLUMN chronolake.instant.target IS
    'The instant that a rollback undoes, a savepoint pins, or the savepoint that a restore goes back to.';
COMMENT ON COLUMN chronolake.instant.rolled_back_by IS 'The rollback or restore that undid the instant.';
COMMENT ON COLUMN chronolake.instant.plan IS 'What the instant is to do: file groups, details; none for most writes.';
COMMENT ON COLUMN chronolake.instant.undone_completion_time IS
    'When an instant had completed that a restore undid since, or a savepoint that was released.';
COMMENT ON COLUMN chronolake.instant.schema_version IS
    'Of the schema that the instant writes with; null for an instant that writes no files.';
COMMENT ON COLUMN chronolake.instant.unswept_since IS
    'When the last deletion was reported of the instant, or by it of its target; null once a sweep found nothing.';
