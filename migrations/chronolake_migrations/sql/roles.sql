-- The roles, at each run of migrate. They belong to the cluster, not to the database: a dump that is restored
-- elsewhere comes without them, and a login that migrates for the first time may not be let in yet.

DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['chronolake_server', 'chronolake_auditor'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION
                -- Another database of the cluster makes it at this moment.
                WHEN duplicate_object OR unique_violation THEN NULL;
            END;
        END IF;
    END LOOP;
END
$$;

-- Who migrates may serve.
DO $$
DECLARE
    -- From version 16 on one may be a member of a role without the right to take it on.
    taking_on text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
    IF NOT pg_has_role(current_user, 'chronolake_server', taking_on) THEN
        EXECUTE format('GRANT chronolake_server TO %I', current_user);
    END IF;
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE WARNING 'this login may not serve; have an administrator say: GRANT chronolake_server TO %',
            quote_ident(current_user);
END
$$;
