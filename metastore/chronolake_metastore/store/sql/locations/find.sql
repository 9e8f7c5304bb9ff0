-- The locations of namespaces that have a list of their own, which may be empty.
SELECT namespace, array_remove(array_agg(CASE WHEN is_allowed THEN location END ORDER BY location), NULL)
FROM location
WHERE namespace = ANY (%(names)s::text[])
GROUP BY namespace
