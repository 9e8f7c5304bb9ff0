-- The eras whose answers PostgreSQL has, the oldest first: when each began and ended, the
-- transaction that ended it, and the wall clock.
SELECT e.era, micros(e.began_at), micros(later.began_at), later.began_in::text::bigint, micros(now())
FROM era e
LEFT JOIN era later ON later.era = e.era + 1
WHERE e.answers_dropped_at IS NULL
ORDER BY e.era
