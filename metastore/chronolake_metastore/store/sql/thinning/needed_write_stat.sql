SELECT {selected}
FROM event_needed e
JOIN write_stat x ON x.table_id = e.table_id AND x.version = e.version
WHERE x.era BETWEEN %(first_era)s AND %(last_era)s
    AND (e.table_id, e.version) > (%(after_table)s::uuid, %(after_version)s::bigint)
    AND (e.table_id, e.version) <= (%(until_table)s::uuid, %(until_version)s::bigint)
