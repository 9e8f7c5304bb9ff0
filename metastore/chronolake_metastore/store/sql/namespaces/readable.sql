-- The first namespaces after a name that are in one of the ranges of names, in their order.
SELECT named.name
FROM unnest(%(first)s::text[], %(last)s::text[]) AS readable (first, last)
CROSS JOIN LATERAL (
    SELECT n.name
    FROM namespace n
    WHERE n.name BETWEEN readable.first AND readable.last AND n.name > %(after)s
    ORDER BY n.name
    LIMIT %(limit)s
) AS named
ORDER BY named.name
LIMIT %(limit)s
