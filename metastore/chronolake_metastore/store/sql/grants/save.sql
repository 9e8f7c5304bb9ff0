INSERT INTO role_grant (subject, key, prefix, table_id, role, granted_at, granted_by)
SELECT subject, key, prefix, table_id, role, moment(granted_at), granted_by
FROM unnest(
    %(subject)s::text[], %(key)s::text[], %(prefix)s::text[], %(table_id)s::uuid[], %(role)s::text[],
    %(granted_at)s::bigint[], %(granted_by)s::text[]
) AS granted (subject, key, prefix, table_id, role, granted_at, granted_by)
ON CONFLICT ON CONSTRAINT role_grant_unique DO UPDATE
SET role = excluded.role, granted_at = excluded.granted_at, granted_by = excluded.granted_by
