-- Record the steady clock, and a jump of the wall clock, unless another server has corrected the offset or recorded a later
-- time since the clocks were read.
WITH recorded AS (
    UPDATE steady_clock s
    SET last_time = moment(%(last_time)s), wall_offset_us = %(wall_offset_us)s
    WHERE s.wall_offset_us = %(offset_read)s AND s.last_time <= moment(%(last_time)s)
    RETURNING s.last_time
),
jumped AS (
    INSERT INTO clock_jump (steady_time, jump_us)
    SELECT recorded.last_time, %(jump_us)s::bigint FROM recorded WHERE %(jump_us)s::bigint <> 0
)
SELECT count(*) FROM recorded
