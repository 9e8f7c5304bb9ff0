-- The lists without an event that names them: it is missing, is of another instant, or does not mention the list.
SELECT n.table_id, n.version, n.list, count(*)
FROM event_entry n
LEFT JOIN event e
    ON e.table_id = n.table_id
    AND e.version = n.version
    AND e.instant = n.instant
    AND CASE n.list
        WHEN 'plan-file-groups' THEN e.type = 'InstantRequested' AND e.payload #> '{plan,file_groups}' IS NOT NULL
        WHEN 'plan-files' THEN e.type = 'InstantRequested' AND e.payload #> '{plan,files_to_delete}' IS NOT NULL
        WHEN 'plan-instants' THEN e.type = 'InstantRequested' AND e.payload #> '{plan,instants}' IS NOT NULL
        WHEN 'replaced-file-groups'
            THEN e.type = 'InstantCompleted' AND e.payload #> '{replaced_file_groups,count}' IS NOT NULL
        ELSE false
    END
WHERE e.table_id IS NULL AND (%(table_id)s::uuid IS NULL OR n.table_id = %(table_id)s)
GROUP BY n.table_id, n.version, n.list
ORDER BY n.table_id, n.version, n.list
LIMIT %(limit)s
