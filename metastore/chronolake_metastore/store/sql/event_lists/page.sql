-- A page of a list. It is bounded by a number of entries and by the bytes of their names, and has at least one entry.
SELECT ordinal, partition_path, name, page_rows
FROM (
    SELECT
        ordinal, partition_path, name,
        sum(octet_length(coalesce(partition_path, '')) + octet_length(name) + 64) OVER (ORDER BY ordinal) AS bytes,
        row_number() OVER (ORDER BY ordinal) AS number,
        count(*) OVER () AS page_rows
    FROM (
        SELECT *
        FROM event_entry e
        WHERE e.table_id = %(table_id)s AND e.instant = moment(%(instant)s) AND e.list = %(list)s AND e.ordinal > %(after)s
        ORDER BY e.ordinal
        LIMIT %(limit)s
    ) AS entry
) AS summed
WHERE bytes <= %(bytes_max)s OR number = 1
ORDER BY ordinal
