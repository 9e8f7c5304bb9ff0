-- The events of some eras that may leave: for each table and era the first version and the last one. The last HudiFilesFound
-- before the first needed event is among them: it leaves too if there is a newer one when the needed events are copied.
SELECT e.table_id, min(e.version), max(e.version)
FROM event e
JOIN unnest(%(table_ids)s::uuid[], %(versions)s::bigint[]) AS first (table_id, version) ON first.table_id = e.table_id
WHERE e.era BETWEEN %(first_era)s AND %(last_era)s
    AND e.version < first.version
    AND e.type <> ALL (%(kinds)s::text[])
GROUP BY e.table_id, e.era
