-- The roles of subjects on beginnings of names.
SELECT g.subject, g.role, g.prefix, NULL::text, NULL::uuid
FROM role_grant g
WHERE g.subject = ANY (%(subjects)s::text[])
    AND g.prefix IS NOT NULL
    AND EXISTS (SELECT FROM unnest(%(texts)s::text[]) AS named (text) WHERE starts_with(named.text, g.prefix))
