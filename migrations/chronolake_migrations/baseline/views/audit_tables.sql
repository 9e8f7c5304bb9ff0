CREATE VIEW chronolake.audit_tables AS
SELECT
    e.table_id,
    e.version,
    e.type,
    coalesce(e.payload ->> 'new_name', e.payload ->> 'name', e.payload -> 'definition' ->> 'name') AS table_name,
    CASE WHEN e.payload ->> 'new_name' IS NOT NULL THEN e.payload ->> 'name' END AS renamed_from,
    coalesce(e.payload -> 'set', e.payload -> 'definition' -> 'properties')::jsonb AS properties_set,
    (e.payload -> 'unset')::jsonb AS properties_unset,
    e.time,
    chronolake.instant_time(e.time, c.tick_us) AS time_digits,
    lead(e.time) OVER of_table AS changed_again_at,
    e.actor,
    e.request_id
FROM chronolake.event e
JOIN chronolake.clock c ON c.table_id = e.table_id
WHERE e.type IN ('TableCreated', 'TableAltered', 'TableDropped')
WINDOW of_table AS (PARTITION BY e.table_id ORDER BY e.version);

COMMENT ON VIEW chronolake.audit_tables IS
    'Every change of the name and properties of a table, with its creation and its drop: the change, the time, the actor.';
