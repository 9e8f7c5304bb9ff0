-- The partitions of the log, the oldest first: each with the first and the last era of its rows, when the first began and the
-- last one ended, what has left of it, about how many rows it has, and its bytes with those of its indexes.
SELECT
    part.first,
    part.last,
    micros(began.began_at),
    micros(later.began_at),
    micros(part.answers_dropped_at),
    micros(part.events_left_at),
    size.events,
    size.others,
    size.bytes
FROM (
    SELECT
        coalesce(lag(e.era) OVER (ORDER BY e.era), 0) + 1 AS first, e.era AS last, e.answers_dropped_at, e.events_left_at
    FROM era e
    WHERE to_regclass(format('event_%%s', e.era)) IS NOT NULL
) AS part
JOIN era began ON began.era = part.first
LEFT JOIN era later ON later.era = part.last + 1
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(part_rows) FILTER (WHERE named = 'event'), 0)::bigint AS events,
        coalesce(sum(part_rows) FILTER (WHERE named <> 'event'), 0)::bigint AS others,
        coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes
    FROM unnest(ARRAY['event', 'event_entry', 'write_stat', 'deleted_file', 'outcome', 'refusal']) AS named
    JOIN pg_class c ON c.oid = to_regclass(format('%%s_%%s', named, part.last))
    -- PostgreSQL counts live rows until it crashes. VACUUM and ANALYZE store their number.
    CROSS JOIN LATERAL (SELECT greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint, 0)) AS counted (part_rows)
) AS size
ORDER BY part.last
