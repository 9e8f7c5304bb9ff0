-- The moment of a number of microseconds since 1970 (UTC).
CREATE FUNCTION chronolake.moment(us bigint) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN timestamptz 'epoch' + us * interval '1 microsecond';
