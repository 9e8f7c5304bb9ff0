-- Whether the row of a file f leaves: a clean before the border b.files_from has deleted the file. All that decides it is
-- final. No state that the table is served as of has the file, for the clean came after it had left the latest slices.
(
    f.cleaned_by < b.files_from
    AND f.superseded_at < b.files_from
    AND f.requested_time < b.files_from
    -- The first file of a partition stays: it shows when the partition began.
    AND EXISTS (
        SELECT
        FROM file earlier
        WHERE earlier.table_id = f.table_id
            AND earlier.partition_path = f.partition_path
            AND (earlier.completion_time, earlier.version, earlier.ordinal, earlier.live_from)
                < (f.completion_time, f.version, f.ordinal, f.live_from)
        OFFSET 0
    )
    -- Those that the last run of a service superseded stay. Later runs may be undone.
    AND NOT EXISTS (
        SELECT
        FROM (VALUES ('compact'), ('log_compact'), ('cluster')) AS service (operation)
        WHERE f.superseded_at = (
            SELECT max(last.completion_time)
            FROM instant last
            WHERE last.table_id = f.table_id
                AND last.operation IN ('compact', 'log_compact', 'cluster')
                AND last.operation = service.operation
                AND last.requested_time < b.files_from
                AND last.completion_time IS NOT NULL
        )
    )
)
