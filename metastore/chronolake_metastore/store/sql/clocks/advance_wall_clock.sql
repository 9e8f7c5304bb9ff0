UPDATE wall_clock
SET last_time = greatest(last_time, moment(now_us()))
RETURNING micros(last_time), greatest(micros(last_time), (SELECT micros(max(c.last_time)) FROM clock c))
