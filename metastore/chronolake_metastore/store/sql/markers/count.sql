-- The numbers of markers and of reported deletions of an instant. Markers of a pending instant are only removed by a
-- reported deletion, so if both numbers are unchanged, the markers are too.
SELECT
    (SELECT count(*) FROM marker m WHERE m.table_id = t.table_id AND m.requested_time = moment(%(requested_time)s)),
    (SELECT count(*) FROM deleted_file d WHERE d.table_id = t.table_id AND d.requested_time = moment(%(requested_time)s))
FROM lake_table t
WHERE t.namespace = %(namespace)s AND t.name = %(name)s AND t.dropped_at IS NULL
