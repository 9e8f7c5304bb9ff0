-- Insert the files that the named events staged for instants of streams. OFFSET 0 makes the planner look up the write
-- stats of each event by themselves.
INSERT INTO buffered_file (
    file_id, partition_path, table_id, version, ordinal, requested_time, file_name, kind
)
SELECT
    w.file_id, w.partition_path, w.table_id, w.version, w.ordinal, moment(staged.requested_time), w.file_name, w.kind
FROM unnest(%(table_id)s::uuid[], %(version)s::bigint[], %(requested_time)s::bigint[])
    AS staged (table_id, version, requested_time)
CROSS JOIN LATERAL (
    SELECT * FROM write_stat s WHERE s.table_id = staged.table_id AND s.version = staged.version OFFSET 0
) AS w
