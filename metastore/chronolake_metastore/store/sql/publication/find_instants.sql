-- What of instants never changes.
SELECT
    micros(i.requested_time), i.action, i.operation, micros(i.target), (i.plan ->> 'cleaned_before')::bigint,
    (i.plan ->> 'earliest_commit_to_retain')::bigint,
    micros(coalesce(i.completion_time, i.undone_completion_time))
FROM unnest(%(requested_times)s::bigint[]) AS named (requested_time)
JOIN instant i ON i.table_id = %(table_id)s AND i.requested_time = moment(named.requested_time)
