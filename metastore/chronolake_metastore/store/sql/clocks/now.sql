-- The wall clock, never behind a time that was returned; the steady clock; and how far the wall clock is ahead of it.
SELECT greatest(now_us(), (SELECT micros(w.last_time) FROM wall_clock w)), steady_us(), s.wall_offset_us
FROM steady_clock s
