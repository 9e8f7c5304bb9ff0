-- An instant of a table.
SELECT {instant}
FROM instant i
WHERE i.table_id = %(table_id)s AND i.requested_time = moment(%(requested_time)s)
