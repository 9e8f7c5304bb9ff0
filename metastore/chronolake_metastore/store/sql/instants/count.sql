-- The number of the instants of a table that pass a filter.
SELECT count(*)
FROM instant i
WHERE {conditions}
