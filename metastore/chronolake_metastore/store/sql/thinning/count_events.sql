-- For each era how many events it has in PostgreSQL, and how many of them may leave.
SELECT e.era, count(*), count(*) FILTER (WHERE NOT ({is_needed}))
FROM event e
LEFT JOIN unnest(%(table_ids)s::uuid[], %(versions)s::bigint[]) AS first (table_id, version) ON first.table_id = e.table_id
WHERE e.era <= %(last_era)s
GROUP BY e.era
