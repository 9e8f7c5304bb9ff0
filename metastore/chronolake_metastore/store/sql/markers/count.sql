-- Of a pending instant markers only come, and go with a deletion only: the same two numbers mean the same markers.
SELECT
    (SELECT count(*) FROM marker m WHERE m.table_id = t.table_id AND m.requested_time = moment(%(requested_time)s)),
    (SELECT count(*) FROM deleted_file d WHERE d.table_id = t.table_id AND d.requested_time = moment(%(requested_time)s))
FROM lake_table t
WHERE t.namespace = %(namespace)s AND t.name = %(name)s AND t.dropped_at IS NULL
