-- The wall clock's time when the steady clock shows ``steady_time``, as far as is known now.
CREATE FUNCTION chronolake.wall_time(steady_time timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN steady_time + (SELECT s.wall_offset_us FROM chronolake.steady_clock s) * interval '1 microsecond';
