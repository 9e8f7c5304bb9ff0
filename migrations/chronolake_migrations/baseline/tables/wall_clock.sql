-- The latest wall time that the server returned to a client (GET /v1/time). No table issues an earlier time, even when
-- the clock of the machine is set back, or a standby with a slower clock takes over.
CREATE TABLE chronolake.wall_clock (
    only_row  boolean     NOT NULL DEFAULT true,
    last_time timestamptz NOT NULL,
    CONSTRAINT wall_clock_one_row PRIMARY KEY (only_row),
    CONSTRAINT wall_clock_only CHECK (only_row)
);

INSERT INTO chronolake.wall_clock (last_time) VALUES ('epoch');
