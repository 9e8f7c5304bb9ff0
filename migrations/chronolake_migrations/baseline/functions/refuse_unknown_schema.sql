-- Each transaction that writes calls this last. So servers of an older release can write nothing after a migration.
CREATE FUNCTION chronolake.refuse_unknown_schema(known text) RETURNS void
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF known IS DISTINCT FROM (SELECT version_num FROM chronolake.alembic_version) THEN
        RAISE EXCEPTION 'the revision of the schema is not %', known
            USING ERRCODE = 'check_violation', CONSTRAINT = 'known_schema';
    END IF;
END
$$;
