-- All files of a file group that were published as of a completion time, in its latest slice or in an earlier one, without
-- those that a restore had undone by then; and whether a clean has planned to delete each: such rows may have left the
-- database. Each file comes once: its first period begins with its completion.
SELECT {file}, f.cleaned_by IS NOT NULL
FROM file f
WHERE f.table_id = %(table_id)s
    AND f.partition_path = %(partition_path)s
    AND f.file_id = %(file_id)s
    AND f.live_from = f.completion_time
    AND f.completion_time <= moment(%(as_of)s)
    AND (f.withdrawn_at IS NULL OR f.withdrawn_at > moment(%(as_of)s))
ORDER BY f.kind, f.completion_time, f.file_name
