-- The moment of a number of microseconds since 1970 (UTC). PostgreSQL multiplies intervals in doubles, which have 53 bits:
-- exact for the microseconds of an hour, and not for those since 1970 in times after 2255.
CREATE FUNCTION chronolake.moment(us bigint) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN timestamptz 'epoch'
        + make_interval(hours => (us / 3600000000)::int)
        + (us % 3600000000) * interval '1 microsecond';
