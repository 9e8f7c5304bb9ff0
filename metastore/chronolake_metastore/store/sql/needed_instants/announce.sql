-- From now on the timeline of each table before a time is read from the archive alone. The files of a table with streams
-- stay: a job that is restored reports those of an old checkpoint again.
UPDATE first_event f
SET instants_from = moment(given.instants_from),
    files_from = CASE
        WHEN EXISTS (SELECT FROM stream s WHERE s.table_id = f.table_id) THEN f.files_from
        ELSE moment(given.instants_from)
    END
FROM unnest(%(table_ids)s::uuid[], %(times)s::bigint[]) AS given (table_id, instants_from)
WHERE f.table_id = given.table_id AND (f.instants_from IS NULL OR f.instants_from < moment(given.instants_from))
