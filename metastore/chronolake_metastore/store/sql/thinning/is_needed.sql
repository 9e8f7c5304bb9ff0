first.version IS NULL
    OR e.version >= first.version
    OR e.type = ANY (%(kinds)s::text[])
    OR (
        e.type = 'HudiFilesFound'
        AND NOT EXISTS (
            SELECT FROM event later
            WHERE later.table_id = e.table_id AND later.version > e.version AND later.type = 'HudiFilesFound'
        )
    )
