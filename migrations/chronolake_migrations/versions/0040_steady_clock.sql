-- The steady clock: leases and other durations end by it, so a jump of the database's clock does not end or prolong them
-- (docs/decisions/0071). It is the wall clock minus wall_offset_us. Each server watches both with its own monotonic clock,
-- and changes the offset when the wall clock has jumped.
CREATE TABLE chronolake.steady_clock (
    only_row       boolean     NOT NULL DEFAULT true,
    last_time      timestamptz NOT NULL,
    wall_offset_us bigint      NOT NULL,
    CONSTRAINT steady_clock_one_row PRIMARY KEY (only_row),
    CONSTRAINT steady_clock_only CHECK (only_row)
);

INSERT INTO chronolake.steady_clock (last_time, wall_offset_us) VALUES (clock_timestamp(), 0);

COMMENT ON COLUMN chronolake.steady_clock.last_time IS 'The time of the steady clock that a server recorded last.';
COMMENT ON COLUMN chronolake.steady_clock.wall_offset_us IS 'How far the wall clock is ahead of the steady clock.';

-- A clean by hours counts the hours that have passed, so it asks for the jumps in these hours.
CREATE TABLE chronolake.clock_jump (
    jump_id     bigint      GENERATED ALWAYS AS IDENTITY,
    steady_time timestamptz NOT NULL,
    jump_us     bigint      NOT NULL,
    CONSTRAINT clock_jump_id_unique PRIMARY KEY (jump_id)
);

CREATE INDEX clock_jump_time ON chronolake.clock_jump (steady_time);

COMMENT ON TABLE chronolake.clock_jump IS
    'Jumps of the wall clock that a server has seen, by the steady clock; negative if the clock was set back.';

-- The steady clock, in microseconds. It passes the time that was recorded last by two seconds at most: if the wall clock has
-- just jumped ahead, no server has seen it yet.
CREATE FUNCTION chronolake.steady_us() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (
        SELECT
            chronolake.micros(s.last_time)
            + least(greatest(chronolake.now_us() - s.wall_offset_us - chronolake.micros(s.last_time), 0), 2000000)
        FROM chronolake.steady_clock s
    );

-- The wall clock's time when the steady clock shows ``steady_time``, as far as is known now.
CREATE FUNCTION chronolake.wall_time(steady_time timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN steady_time + (SELECT s.wall_offset_us FROM chronolake.steady_clock s) * interval '1 microsecond';

ALTER TABLE chronolake.instant ADD grace_began_at timestamptz;

-- Until now, both clocks were one.
UPDATE chronolake.instant SET grace_began_at = unswept_since WHERE unswept_since IS NOT NULL;

COMMENT ON COLUMN chronolake.instant.grace_began_at IS
    'When the last deletion was reported, by the steady clock: the beginning of the grace period before the sweep.';

DROP INDEX chronolake.instant_unswept;

CREATE INDEX instant_unswept ON chronolake.instant (table_id, grace_began_at, requested_time)
    WHERE grace_began_at IS NOT NULL AND state IN ('completed', 'rolled_back');

-- The lease of a stream holds its instants, whose own leases end in the year 9999. The steady clock decides whether a lease
-- has expired. Times are shown by the wall clock.
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
    lease.seconds AS lease_seconds,
    chronolake.wall_time(lease.expires_at) AS lease_expires_at,
    CASE
        WHEN lease.expires_at IS NULL THEN 'none'
        WHEN lease.expires_at > steady.time THEN 'live'
        ELSE 'expired'
    END AS lease_state,
    steady.time - lease.expires_at AS expired_for,
    wall.time - i.requested_time AS running_for,
    i.stream ->> 'name' AS stream,
    (i.stream ->> 'checkpoint')::bigint AS checkpoint,
    b.is_reported
FROM chronolake.instant i
JOIN chronolake.lake_table t ON t.table_id = i.table_id AND t.dropped_at IS NULL
JOIN chronolake.clock c ON c.table_id = i.table_id
JOIN chronolake.event e ON e.table_id = i.table_id AND e.version = i.version
LEFT JOIN chronolake.stream s ON s.table_id = i.table_id AND s.name = i.stream ->> 'name'
LEFT JOIN chronolake.stream_checkpoint b ON b.table_id = i.table_id AND b.requested_time = i.requested_time
CROSS JOIN LATERAL (
    SELECT
        CASE WHEN i.stream IS NULL THEN i.lease_seconds ELSE s.lease_seconds END AS seconds,
        CASE WHEN i.stream IS NULL THEN i.lease_expires_at ELSE s.lease_expires_at END AS expires_at
) AS lease
CROSS JOIN (SELECT greatest(chronolake.moment(chronolake.now_us()), last_time) AS time FROM chronolake.wall_clock) AS wall
CROSS JOIN (SELECT chronolake.moment(chronolake.steady_us()) AS time) AS steady
WHERE i.state IN ('requested', 'inflight');

CREATE OR REPLACE VIEW chronolake.audit_streams AS
SELECT
    t.namespace || '.' || t.name AS table_name,
    s.table_id,
    s.name AS stream,
    s.epoch,
    s.writer,
    s.opened_at,
    s.is_open,
    chronolake.wall_time(s.lease_expires_at) AS lease_expires_at,
    s.lease_expires_at <= chronolake.moment(chronolake.steady_us()) AS is_expired,
    s.acknowledged AS acknowledged_checkpoint,
    buffered.instants AS pending_instants,
    buffered.oldest_checkpoint,
    buffered.oldest_instant,
    buffered.files AS buffered_files,
    buffered.bytes AS buffered_bytes,
    buffered.is_reported
FROM chronolake.stream s
JOIN chronolake.lake_table t ON t.table_id = s.table_id AND t.dropped_at IS NULL
CROSS JOIN LATERAL (
    SELECT
        count(DISTINCT c.checkpoint) AS instants,
        min(c.checkpoint) AS oldest_checkpoint,
        min(c.requested_time) AS oldest_instant,
        coalesce(sum((report.value ->> 'files')::bigint), 0) AS files,
        coalesce(sum((report.value ->> 'size_bytes')::numeric), 0) AS bytes,
        bool_and((report.value ->> 'last_batch')::boolean) AS is_reported
    FROM chronolake.stream_checkpoint c
    LEFT JOIN LATERAL jsonb_each(c.tasks) AS report ON true
    WHERE c.table_id = s.table_id AND c.stream = s.name
) AS buffered;
