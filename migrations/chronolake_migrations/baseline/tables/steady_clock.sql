-- The steady clock: leases and other durations end by it, so a jump of the database's clock does not end or prolong them
-- (docs/decisions/0002). It is the wall clock minus wall_offset_us. Each server watches both with its own monotonic clock,
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
