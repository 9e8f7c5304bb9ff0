-- How far clustering has looked at a table. A look that read an earlier state than a later one does not replace it.
INSERT INTO clustering_look (table_id, policy, seen_until, left_out)
VALUES (%(table_id)s::uuid, %(policy)s, moment(%(seen_until)s), %(left_out)s::text[])
ON CONFLICT (table_id) DO UPDATE
SET policy = excluded.policy, seen_until = excluded.seen_until, left_out = excluded.left_out
WHERE clustering_look.seen_until <= excluded.seen_until OR clustering_look.policy <> excluded.policy
