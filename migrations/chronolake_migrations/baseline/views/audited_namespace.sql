-- The namespaces that the login of the session may audit. `session_user` is the login also after SET ROLE, and in functions
-- that run as their owner.
CREATE VIEW chronolake.audited_namespace AS
SELECT DISTINCT a.namespace
FROM chronolake.namespace_auditor a
WHERE pg_get_userbyid(a.login_oid) = a.login AND pg_has_role(session_user, a.login_oid, 'USAGE');

COMMENT ON VIEW chronolake.audited_namespace IS
    'The namespaces that the login of the session may audit; nobody is granted this view.';
