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
