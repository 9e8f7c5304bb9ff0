-- The partitions in which files came into the latest slices after a time, and those that earlier rounds of clustering have
-- left out. The condition on the times is that of the index, and is always true.
SELECT DISTINCT changed.partition_path
FROM (
    SELECT f.partition_path
    FROM file f
    WHERE f.table_id = %(table_id)s::uuid
        AND f.live_from > moment(%(since)s)
        AND f.live_from >= f.completion_time
    UNION ALL
    SELECT unnest(%(left_out)s::text[])
) AS changed (partition_path)
WHERE %(regex)s::text IS NULL OR changed.partition_path ~ ('^(?:' || %(regex)s || ')$')
