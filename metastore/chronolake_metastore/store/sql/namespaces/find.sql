SELECT
    n.name,
    n.properties::text,
    micros(n.created_at),
    (SELECT count(*) FROM lake_table t WHERE t.namespace = n.name AND t.dropped_at IS NULL)
FROM namespace n
WHERE n.name = ANY (%(names)s::text[])
