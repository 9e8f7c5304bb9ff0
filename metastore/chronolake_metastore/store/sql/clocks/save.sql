INSERT INTO clock (table_id, tick_us, last_time, version, hash)
SELECT table_id, tick_us, moment(last_time), version, hash
FROM unnest(%(table_id)s::uuid[], %(tick_us)s::bigint[], %(last_time)s::bigint[], %(version)s::bigint[], %(hash)s::bytea[])
    AS saved (table_id, tick_us, last_time, version, hash)
ON CONFLICT ON CONSTRAINT clock_table_unique DO UPDATE
SET last_time = excluded.last_time, version = excluded.version, hash = excluded.hash
