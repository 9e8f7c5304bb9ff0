-- The tables that the login of the session may audit. A table belongs to the namespace of its present name, or of its last one
-- if it was dropped. If it has left a namespace, the auditors of that one keep what has a version up to `until_version`, which
-- is that of the renaming, under its last name there.
CREATE VIEW chronolake.audited_table AS
WITH audited AS MATERIALIZED (
    SELECT namespace FROM chronolake.audited_namespace
)
SELECT t.table_id, t.namespace || '.' || t.name AS table_name, NULL::bigint AS until_version
FROM chronolake.lake_table t
WHERE t.namespace IN (SELECT namespace FROM audited)
UNION ALL
SELECT former.table_id, former.name, former.version
FROM (
    SELECT DISTINCT ON (e.table_id) e.table_id, e.payload ->> 'name' AS name, e.version
    FROM chronolake.event e
    JOIN chronolake.lake_table t ON t.table_id = e.table_id
    WHERE e.type = 'TableAltered'
        AND e.payload ->> 'new_name' IS NOT NULL
        AND split_part(e.payload ->> 'name', '.', 1) IN (SELECT namespace FROM audited)
        AND t.namespace NOT IN (SELECT namespace FROM audited)
    ORDER BY e.table_id, e.version DESC
) AS former;

COMMENT ON VIEW chronolake.audited_table IS
    'The tables that the login of the session may audit as an auditor of namespaces; nobody is granted this view.';
