UPDATE wall_clock
SET told = greatest(told, moment(now_us()))
RETURNING micros(told), greatest(micros(told), (SELECT micros(max(last_time)) FROM clock))
