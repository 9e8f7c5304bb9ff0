-- A moment in microseconds since 1970 (UTC).
CREATE FUNCTION chronolake.micros(moment timestamptz) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (extract(epoch FROM moment) * 1000000)::bigint;
