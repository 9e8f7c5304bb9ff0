-- The wall clock, never earlier than a returned time; the steady clock; and how far the wall clock is ahead of it. A
-- transaction that appends to the log gets its id here: it holds all locks.
SELECT
    greatest(now_us(), (SELECT micros(w.last_time) FROM wall_clock w)), steady_us(), s.wall_offset_us,
    CASE WHEN %(appends)s::boolean THEN pg_current_xact_id()::text::bigint ELSE 0 END
FROM steady_clock s
