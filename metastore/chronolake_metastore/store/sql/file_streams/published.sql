-- Every data file that was published up to a time, each once, unless it was cleaned by then. Superseded, replaced and
-- undone files are included. The time is after the completion of each clean that has left the database.
SELECT
    CASE partition_path WHEN '' THEN file_name ELSE partition_path || '/' || file_name END AS path,
    size_bytes,
    requested_time,
    completion_time
FROM file
WHERE table_id = %(table_id)s
    AND completion_time <= moment(%(as_of)s)
    -- Only the first period of a file: a restore may have brought it back later.
    AND live_from = completion_time
    AND (
        cleaned_by IS NULL
        OR NOT EXISTS (
            SELECT
            FROM instant clean
            WHERE clean.table_id = file.table_id
                AND clean.requested_time = file.cleaned_by
                AND clean.completion_time <= moment(%(as_of)s)
        )
        AND NOT EXISTS (
            SELECT FROM first_event f WHERE f.table_id = file.table_id AND file.cleaned_by < f.instants_from
        )
    )
