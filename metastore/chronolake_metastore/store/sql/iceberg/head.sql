-- A live table with the last version of its log, its last completion time, undone since or not, and whether PostgreSQL has all
-- of its instants.
SELECT
    t.table_id, t.definition::text, micros(t.created_at), micros(t.cleaned_before), micros(t.earliest_commit_to_retain),
    c.version,
    micros(greatest(
        (
            SELECT max(i.completion_time)
            FROM instant i
            WHERE i.table_id = t.table_id AND i.completion_time IS NOT NULL
        ),
        (
            SELECT max(i.undone_completion_time)
            FROM instant i
            WHERE i.table_id = t.table_id AND i.undone_completion_time IS NOT NULL
        )
    )),
    NOT EXISTS (SELECT FROM first_event f WHERE f.table_id = t.table_id AND f.instants_from IS NOT NULL)
FROM lake_table t
JOIN clock c ON c.table_id = t.table_id
WHERE t.namespace = %(namespace)s AND t.name = %(table)s AND t.dropped_at IS NULL
