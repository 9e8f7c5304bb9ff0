-- The partitions of events that may be thinned: each with the first and the last era of its rows, when the last one ended, and
-- the transaction that ended it. An era without a partition is in the next one. Its answers have left, or leave now.
SELECT
    coalesce(lag(e.era) OVER (ORDER BY e.era), 0) + 1,
    e.era,
    micros(later.began_at),
    later.began_in::text::bigint,
    e.events_left_at IS NOT NULL
FROM era e
JOIN era later ON later.era = e.era + 1
WHERE to_regclass(format('event_%%s', e.era)) IS NOT NULL AND e.answers_dropped_at IS NOT NULL
ORDER BY e.era
