-- The time as of which, and as of later ones, no file of a table has left the database; no row if none has left at all.
SELECT micros(least(t.cleaned_before, f.files_from))
FROM lake_table t
JOIN first_event f ON f.table_id = t.table_id
WHERE t.table_id = %(table_id)s AND t.cleaned_before IS NOT NULL AND f.files_from IS NOT NULL
