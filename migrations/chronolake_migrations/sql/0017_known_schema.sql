-- A server asks before each commit whether the schema is still the one that it knows: after a migration those of
-- the release before must write no more.

CREATE OR REPLACE FUNCTION chronolake.refuse_unknown_schema(known text) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF known IS DISTINCT FROM (SELECT version_num FROM chronolake.alembic_version) THEN
        RAISE EXCEPTION 'the schema is not %', known
            USING ERRCODE = 'check_violation', CONSTRAINT = 'known_schema';
    END IF;
END
$$;
