-- All actions of the timeline: plans, rollbacks and restores as instants, savepoints; who plans for a file group, and
-- which were replaced (docs/decisions/0011).
--
-- Expand: the new columns may be empty. Servers of the release before know nothing of them, so stop those first.

ALTER TABLE chronolake.instant
    ADD COLUMN target timestamptz,
    ADD COLUMN rolled_back_by timestamptz,
    ADD COLUMN plan jsonb,
    -- A plan that waits for somebody to execute it has no lease.
    DROP CONSTRAINT instant_pending_has_lease,
    ADD CONSTRAINT instant_lease_is_of_pending
        CHECK (lease_expires_at IS NULL OR state IN ('requested', 'inflight')),
    ADD CONSTRAINT instant_inflight_has_lease CHECK (state <> 'inflight' OR lease_expires_at IS NOT NULL);

COMMENT ON COLUMN chronolake.instant.target IS
    'The instant that a rollback undoes, a savepoint pins, or the savepoint that a restore goes back to.';
COMMENT ON COLUMN chronolake.instant.rolled_back_by IS 'The rollback or restore that undid the instant.';
COMMENT ON COLUMN chronolake.instant.plan IS 'What the instant is to do: file groups, details; none for most writes.';

-- A restore asks for what is pending, and for the savepoints, without looking through the whole timeline.
CREATE INDEX instant_pending ON chronolake.instant (table_id, requested_time)
    WHERE state IN ('requested', 'inflight');
CREATE INDEX instant_savepoint ON chronolake.instant (table_id, requested_time)
    WHERE action = 'savepoint' AND state = 'completed';

CREATE TABLE chronolake.planned_group (
    table_id       uuid        NOT NULL,
    partition_path text        NOT NULL,
    file_id        text        NOT NULL,
    requested_time timestamptz NOT NULL,
    CONSTRAINT planned_group_unique PRIMARY KEY (table_id, partition_path, file_id, requested_time)
);

CREATE INDEX planned_group_instant ON chronolake.planned_group (table_id, requested_time);

COMMENT ON TABLE chronolake.planned_group IS 'The file groups that the plans of pending instants name.';

CREATE TABLE chronolake.replaced_group (
    table_id       uuid        NOT NULL,
    partition_path text        NOT NULL,
    file_id        text        NOT NULL,
    requested_time timestamptz NOT NULL,
    replaced_at    timestamptz NOT NULL,
    CONSTRAINT replaced_group_unique PRIMARY KEY (table_id, partition_path, file_id, requested_time)
);

CREATE INDEX replaced_group_at ON chronolake.replaced_group (table_id, replaced_at);

COMMENT ON TABLE chronolake.replaced_group IS
    'The file groups that were replaced: by the instant of requested_time, which completed at replaced_at.';

GRANT SELECT, INSERT, UPDATE, DELETE ON chronolake.planned_group, chronolake.replaced_group TO chronolake_server;

-- ---------------------------------------------------------------------------------------------- views

CREATE OR REPLACE VIEW chronolake.audit_pending AS
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
    CASE
        WHEN i.lease_expires_at IS NULL THEN 'none'
        WHEN i.lease_expires_at > wall.time THEN 'live'
        ELSE 'expired'
    END AS lease_state,
    wall.time - i.lease_expires_at AS expired_for,
    wall.time - i.requested_time AS running_for
FROM chronolake.instant i
JOIN chronolake.lake_table t ON t.table_id = i.table_id AND t.dropped_at IS NULL
JOIN chronolake.clock c ON c.table_id = i.table_id
JOIN chronolake.event e ON e.table_id = i.table_id AND e.version = i.version
CROSS JOIN (SELECT greatest(chronolake.moment(chronolake.now_us()), told) AS time FROM chronolake.wall_clock) AS wall
WHERE i.state IN ('requested', 'inflight');

-- What an instant added comes from the log: a restore takes it out of the projection.
CREATE OR REPLACE VIEW chronolake.audit_files AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    changed.table_id,
    changed.requested_time,
    chronolake.instant_time(changed.requested_time, c.tick_us) AS requested_digits,
    changed.completion_time,
    chronolake.instant_time(changed.completion_time, c.tick_us) AS completion_digits,
    changed.change,
    changed.partition_path,
    changed.file_id,
    changed.file_name,
    changed.kind,
    changed.size_bytes,
    changed.records
FROM (
    SELECT
        e.table_id, e.instant AS requested_time, e.time AS completion_time, 'added' AS change, w.partition_path,
        w.file_id, w.file_name, w.kind, w.size_bytes, w.records
    FROM chronolake.event e
    JOIN chronolake.write_stat w ON w.table_id = e.table_id AND w.version = e.version
    WHERE e.type = 'InstantCompleted'
    UNION ALL
    SELECT
        i.table_id, i.requested_time, i.completion_time, 'removed', f.partition_path, f.file_id, f.file_name, f.kind,
        f.size_bytes, f.records
    FROM chronolake.instant i
    JOIN chronolake.file f ON f.table_id = i.table_id AND f.superseded_at = i.completion_time
    UNION ALL
    SELECT
        undone.table_id, undo.requested_time, undo.completion_time, 'removed', w.partition_path, w.file_id,
        w.file_name, w.kind, w.size_bytes, w.records
    FROM chronolake.instant undo
    JOIN chronolake.instant undone ON undone.table_id = undo.table_id AND undone.rolled_back_by = undo.requested_time
    JOIN chronolake.event e
        ON e.table_id = undone.table_id AND e.instant = undone.requested_time AND e.type = 'InstantCompleted'
    JOIN chronolake.write_stat w ON w.table_id = e.table_id AND w.version = e.version
    WHERE undo.action = 'restore'
) AS changed
JOIN chronolake.lake_table t ON t.table_id = changed.table_id
JOIN chronolake.clock c ON c.table_id = changed.table_id;

CREATE VIEW chronolake.audit_rollbacks AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    undone.table_id,
    undone.requested_time,
    chronolake.instant_time(undone.requested_time, c.tick_us) AS requested_digits,
    undone.action,
    undone.operation,
    undone.writer,
    e.time AS rolled_back_at,
    e.payload ->> 'by' AS rolled_back_by,
    e.actor AS rolled_back_by_actor,
    undone.rollback_reason AS reason,
    undo.action AS undone_by_action,
    undo.requested_time AS undone_by_requested_time,
    chronolake.instant_time(undo.requested_time, c.tick_us) AS undone_by_digits,
    undo.state AS undone_by_state,
    undo.plan -> 'files_to_delete' AS files_to_delete,
    e.request_id
FROM chronolake.instant undone
JOIN chronolake.lake_table t ON t.table_id = undone.table_id
JOIN chronolake.clock c ON c.table_id = undone.table_id
JOIN chronolake.event e ON e.table_id = undone.table_id AND e.version = undone.version
LEFT JOIN chronolake.instant undo
    ON undo.table_id = undone.table_id AND undo.requested_time = undone.rolled_back_by
WHERE undone.state = 'rolled_back';

COMMENT ON VIEW chronolake.audit_rollbacks IS
    'Every instant that was rolled back, and every savepoint released: when, by whom, why, and by which rollback or restore.';

GRANT SELECT ON chronolake.audit_rollbacks TO chronolake_auditor;
