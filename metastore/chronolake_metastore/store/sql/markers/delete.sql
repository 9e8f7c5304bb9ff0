-- The next markers of an instant, of those behind a place. Many would keep a transaction open for long, and the feed
-- of the log waits for the oldest one.
WITH next AS MATERIALIZED (
    SELECT m.ctid AS place, m.partition_path, m.file_name, m.kind
    FROM marker m
    WHERE m.table_id = %(table_id)s
        AND m.requested_time = moment(%(requested_time)s)
        AND (m.partition_path, m.file_name, m.kind) > (%(after_partition)s, %(after_file)s, %(after_kind)s)
    ORDER BY m.partition_path, m.file_name, m.kind
    LIMIT %(markers)s
),
gone AS (
    DELETE FROM marker WHERE ctid = ANY (ARRAY(SELECT place FROM next)) RETURNING 1
)
SELECT next.partition_path, next.file_name, next.kind, (SELECT count(*) FROM gone)
FROM next
ORDER BY next.partition_path DESC, next.file_name DESC, next.kind DESC
LIMIT 1
