-- The logins that read the history of a namespace in SQL (docs/decisions/0103-auditors-of-namespaces.md). A login has a name and
-- an oid: neither a new login with the name of a dropped one, nor one of another cluster with its oid, is the same login.
CREATE TABLE chronolake.namespace_auditor (
    login     name             NOT NULL,
    login_oid oid              NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    CONSTRAINT namespace_auditor_unique PRIMARY KEY (login, namespace)
);

COMMENT ON TABLE chronolake.namespace_auditor IS
    'The logins that audit a namespace, as chronolake-metastore auditors has set them. Neither log nor projection.';
