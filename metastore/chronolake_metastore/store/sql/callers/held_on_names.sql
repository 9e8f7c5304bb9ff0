-- The roles of subjects on named tables.
SELECT g.subject, g.role, NULL, named.name, t.table_id
FROM unnest(%(tables)s::text[]) AS named (name)
CROSS JOIN LATERAL (
    SELECT live.table_id
    FROM lake_table live
    WHERE live.namespace = split_part(named.name, '.', 1) AND live.name = split_part(named.name, '.', 2)
        AND live.dropped_at IS NULL
    OFFSET 0
) AS t
JOIN role_grant g ON g.subject = ANY (%(subjects)s::text[]) AND g.key = 'table:' || t.table_id
