SELECT projection.relname, array_agg(key.attname::text ORDER BY numbered.number)
FROM pg_constraint primary_key
JOIN pg_class projection ON projection.oid = primary_key.conrelid
CROSS JOIN unnest(primary_key.conkey) WITH ORDINALITY AS numbered (attnum, number)
JOIN pg_attribute key ON key.attrelid = projection.oid AND key.attnum = numbered.attnum
WHERE primary_key.connamespace = 'chronolake'::regnamespace
    AND primary_key.contype = 'p'
    AND projection.relname = ANY (%(projections)s::text[])
GROUP BY projection.relname
