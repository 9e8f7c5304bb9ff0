-- The wall clock of the database, in microseconds since 1970 (UTC). Time is read nowhere else.
CREATE FUNCTION chronolake.now_us() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
