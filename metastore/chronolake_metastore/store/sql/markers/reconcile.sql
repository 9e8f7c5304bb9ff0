-- Compare the markers of an instant with its write stats, both those in the request and those that were staged: the
-- numbers of markers and deletions, the first markers without write stats, and the first write stat without a marker.
-- Both are sorted together: a join would match many thousands with many thousands, and a wrong estimate of the planner
-- would make it slow.
WITH it AS MATERIALIZED (
    SELECT t.table_id, moment(%(requested_time)s) AS requested_time
    FROM lake_table t
    WHERE t.namespace = %(namespace)s AND t.name = %(name)s AND t.dropped_at IS NULL
),
odd AS MATERIALIZED (
    SELECT partition_path, file_name, bool_or(is_marker) AS is_marked
    FROM (
        SELECT m.partition_path, m.file_name, true AS is_marker
        FROM it
        JOIN marker m ON m.table_id = it.table_id AND m.requested_time = it.requested_time
        UNION ALL
        SELECT w.partition_path, w.file_name, false
        FROM it
        JOIN write_stat w ON w.table_id = it.table_id AND w.version = ANY (%(versions)s::bigint[])
        UNION ALL
        SELECT stat.partition_path, stat.file_name, false
        FROM unnest(%(partition_paths)s::text[], %(file_names)s::text[]) AS stat (partition_path, file_name)
    ) AS named
    GROUP BY partition_path, file_name
    HAVING bool_and(is_marker) OR NOT bool_or(is_marker)
)
SELECT
    (
        SELECT count(*)
        FROM it
        JOIN marker m ON m.table_id = it.table_id AND m.requested_time = it.requested_time
    ),
    (
        SELECT count(*)
        FROM it
        JOIN deleted_file d ON d.table_id = it.table_id AND d.requested_time = it.requested_time
    ),
    (SELECT count(*) FROM odd WHERE is_marked),
    NULL::boolean, NULL::text, NULL::text
UNION ALL
(
    SELECT NULL, NULL, NULL, is_marked, partition_path, file_name
    FROM odd
    WHERE is_marked
    ORDER BY partition_path, file_name
    LIMIT %(named)s::integer
)
UNION ALL
(
    SELECT NULL, NULL, NULL, is_marked, partition_path, file_name
    FROM odd
    WHERE NOT is_marked
    ORDER BY partition_path, file_name
    LIMIT 1
)
