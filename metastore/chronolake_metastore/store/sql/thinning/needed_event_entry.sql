-- With the file groups of plans that reads of the past show as pending, also when the event of the plan has left before.
SELECT {selected}
FROM (
    SELECT x.*
    FROM event e
    JOIN event_entry x ON x.table_id = e.table_id AND x.instant = e.instant AND x.version = e.version
    WHERE e.era BETWEEN %(first_era)s AND %(last_era)s
        AND (e.table_id, e.version) > (%(after_table)s::uuid, %(after_version)s::bigint)
        AND (e.table_id, e.version) <= (%(until_table)s::uuid, %(until_version)s::bigint)
        AND EXISTS (SELECT FROM event_needed n WHERE n.table_id = e.table_id AND n.version = e.version)
    UNION ALL
    SELECT x.*
    FROM lake_table t
    CROSS JOIN readable_plans(t.table_id) AS plan
    JOIN event_entry x ON x.table_id = t.table_id AND x.instant = plan AND x.list = 'plan-file-groups'
    WHERE t.table_id BETWEEN %(after_table)s::uuid AND %(until_table)s::uuid
        AND (x.table_id, x.version) > (%(after_table)s::uuid, %(after_version)s::bigint)
        AND (x.table_id, x.version) <= (%(until_table)s::uuid, %(until_version)s::bigint)
        AND NOT EXISTS (SELECT FROM event_needed n WHERE n.table_id = x.table_id AND n.version = x.version)
) AS x
WHERE x.era BETWEEN %(first_era)s AND %(last_era)s
