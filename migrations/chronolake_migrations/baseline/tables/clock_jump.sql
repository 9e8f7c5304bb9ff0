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
