-- A role ends by the next event of the same subject on the same pattern or table, or when the table is dropped.
CREATE VIEW chronolake.audit_grants AS
SELECT
    g.subject,
    n.name,
    g.role,
    g.pattern,
    t.namespace || '.' || t.name AS table_name,
    g.table_id,
    g.time AS granted_at,
    g.actor,
    coalesce(g.ended_at, dropped.time) AS ended_at,
    coalesce(g.ended_by, dropped.actor) AS ended_by,
    g.version,
    g.request_id
FROM (
    SELECT
        e.type,
        e.payload ->> 'subject' AS subject,
        e.payload ->> 'role' AS role,
        e.payload ->> 'pattern' AS pattern,
        (e.payload ->> 'table_id')::uuid AS table_id,
        e.time,
        e.actor,
        e.version,
        e.request_id,
        lead(e.time) OVER of_key AS ended_at,
        lead(e.actor) OVER of_key AS ended_by
    FROM chronolake.event e
    WHERE e.table_id = '00000000-0000-0000-0000-000000000000' AND e.type IN ('RoleGranted', 'RoleRevoked')
    WINDOW of_key AS (
        PARTITION BY e.payload ->> 'subject', coalesce('table:' || (e.payload ->> 'table_id'), e.payload ->> 'pattern')
        ORDER BY e.version
    )
) AS g
LEFT JOIN chronolake.token_name n ON 'token:' || n.token_id = g.subject
LEFT JOIN chronolake.lake_table t ON t.table_id = g.table_id
LEFT JOIN chronolake.event dropped ON dropped.table_id = g.table_id AND dropped.type = 'TableDropped'
WHERE g.type = 'RoleGranted';

COMMENT ON VIEW chronolake.audit_grants IS
    'Every role that was granted: the subject, the names, the time, the grantor, and when and by whom it was ended.';
