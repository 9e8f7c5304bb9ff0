-- The login may be a group of logins. A dropped login that was created again has another oid.
WITH known AS (
    SELECT
        r.rolname,
        r.oid,
        CASE
            WHEN NOT pg_has_role(r.oid, 'chronolake_namespace_auditor', 'USAGE')
            THEN format('GRANT chronolake_namespace_auditor TO %%I', r.rolname)
        END AS missing_grant
    FROM pg_roles r
    WHERE r.rolname = %(login)s::text
),
saved AS (
    INSERT INTO namespace_auditor (login, login_oid, namespace)
    SELECT known.rolname, known.oid, %(namespace)s FROM known
    ON CONFLICT ON CONSTRAINT namespace_auditor_unique DO UPDATE SET login_oid = excluded.login_oid
    WHERE namespace_auditor.login_oid <> excluded.login_oid
    RETURNING login
)
SELECT EXISTS (SELECT FROM saved), known.missing_grant
FROM known
