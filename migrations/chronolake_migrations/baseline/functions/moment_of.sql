-- The moment of an instant time of 17 or 20 digits.
CREATE FUNCTION chronolake.moment_of(digits text) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN make_timestamptz(
        substr(digits, 1, 4)::int, substr(digits, 5, 2)::int, substr(digits, 7, 2)::int,
        substr(digits, 9, 2)::int, substr(digits, 11, 2)::int, 0, 'UTC'
    ) + rpad(substr(digits, 13), 8, '0')::bigint * interval '1 microsecond';
