-- A transaction that ends an instant without markers checks again when no marker can be created any more, and fails
-- here if there is one.
CREATE FUNCTION chronolake.refuse_late_marker(requested_time timestamptz) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the instant of % has markers by now', requested_time
        USING ERRCODE = 'check_violation', CONSTRAINT = 'marker_seen';
END
$$;
