-- A page of the instants of a table that pass a filter, without their plans, in the order of a time.
SELECT {instant_without_plan}
FROM instant i
WHERE {conditions}
ORDER BY {order}
LIMIT %(limit)s OFFSET %(skip)s
