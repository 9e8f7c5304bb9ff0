SELECT {selected}
FROM event e
LEFT JOIN unnest(%(table_ids)s::uuid[], %(versions)s::bigint[]) AS first (table_id, version) ON first.table_id = e.table_id
WHERE e.era BETWEEN %(first_era)s AND %(last_era)s
    AND (e.table_id, e.version) > (%(after_table)s::uuid, %(after_version)s::bigint)
    AND (e.table_id, e.version) <= (%(until_table)s::uuid, %(until_version)s::bigint)
    AND ({is_needed})
