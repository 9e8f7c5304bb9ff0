-- The roles. This file runs at each migration. Roles belong to the cluster and not to the database, so a restored dump has
-- none, and a login that migrates for the first time is not a member yet.

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['chronolake_server', 'chronolake_auditor', 'chronolake_namespace_auditor'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', name);
            EXCEPTION
                -- A concurrent migration of another database of the cluster has created it.
                WHEN duplicate_object OR unique_violation THEN NULL;
            END;
        END IF;
    END LOOP;
END
$$;

-- The login that migrates becomes a member of the server's role.
DO $$
DECLARE
    -- From version 16 on, membership does not imply the right to SET ROLE.
    set_role text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
    IF NOT pg_has_role(current_user, 'chronolake_server', set_role) THEN
        EXECUTE format('GRANT chronolake_server TO %I', current_user);
    END IF;
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE WARNING 'this login cannot run a server; an administrator must run: GRANT chronolake_server TO %',
            quote_ident(current_user);
END
$$;
