-- Delete the next markers of an instant after a place. Their number is bounded, because a long transaction would delay
-- the feed of the log, which waits for the oldest open transaction.
WITH next AS MATERIALIZED (
    SELECT m.ctid AS place, m.partition_path, m.file_name, m.kind
    FROM marker m
    WHERE m.table_id = %(table_id)s
        AND m.requested_time = moment(%(requested_time)s)
        AND (m.partition_path, m.file_name, m.kind) > (%(after_partition)s, %(after_file)s, %(after_kind)s)
    ORDER BY m.partition_path, m.file_name, m.kind
    LIMIT %(markers)s
),
deleted AS (
    DELETE FROM marker WHERE ctid = ANY (ARRAY(SELECT place FROM next)) RETURNING 1
)
SELECT next.partition_path, next.file_name, next.kind, (SELECT count(*) FROM deleted)
FROM next
ORDER BY next.partition_path DESC, next.file_name DESC, next.kind DESC
LIMIT 1
