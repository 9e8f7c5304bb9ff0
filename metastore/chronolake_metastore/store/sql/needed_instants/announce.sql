-- From now on the timeline of each table before a time is read from the archive alone.
UPDATE first_event f
SET instants_from = moment(given.instants_from)
FROM unnest(%(table_ids)s::uuid[], %(times)s::bigint[]) AS given (table_id, instants_from)
WHERE f.table_id = given.table_id AND (f.instants_from IS NULL OR f.instants_from < moment(given.instants_from))
