CREATE FUNCTION chronolake.moment(us bigint) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN timestamptz 'epoch' + us * interval '1 microsecond';
