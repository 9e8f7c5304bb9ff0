-- Hudi's digits for a moment, as the server writes them: 17 for a tick of a millisecond, 20 for a microsecond. A
-- finer time is truncated, not rounded.
CREATE FUNCTION chronolake.instant_time(moment timestamptz, tick_us bigint) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN to_char(moment AT TIME ZONE 'UTC', CASE tick_us WHEN 1 THEN 'YYYYMMDDHH24MISSUS' ELSE 'YYYYMMDDHH24MISSMS' END);
