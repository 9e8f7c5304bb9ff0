-- The names of the constraints of each projection, and of the same constraints of its replay table. LIKE gives constraints
-- new names, but statements use those of the projections (ON CONFLICT ON CONSTRAINT).
SELECT projection.relname, ours.conname, theirs.conname
FROM pg_constraint theirs
JOIN pg_class projection ON projection.oid = theirs.conrelid
JOIN pg_constraint ours
    ON ours.conrelid = to_regclass(format('pg_temp.%%I', projection.relname))
    AND ours.contype = theirs.contype
    AND ours.conkey = theirs.conkey
WHERE theirs.connamespace = 'chronolake'::regnamespace
    AND theirs.contype IN ('p', 'u')
    AND projection.relname = ANY (%(projections)s::text[])
