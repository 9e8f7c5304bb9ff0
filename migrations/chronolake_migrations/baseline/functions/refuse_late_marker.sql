-- Fails the transaction. A transaction that ends an instant as one without markers checks once more, when no marker of
-- the instant can be created any more, and calls this function if there is one.
CREATE FUNCTION chronolake.refuse_late_marker(requested_time timestamptz) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the instant of % got a marker meanwhile', requested_time
        USING ERRCODE = 'check_violation', CONSTRAINT = 'marker_seen';
END
$$;
