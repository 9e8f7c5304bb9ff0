-- How far a table is published, its present version, and the time of the first event that is not published. A table that
-- was never written has none, unless a server has failed: readers miss nothing. If the event is only in the archive, the time
-- is that of the event before it, or an earlier one.
SELECT
    p.published_version, micros(p.published_completion), micros(p.published_at), p.hidden_until, p.epoch, p.publisher,
    micros(p.lease_expires_at), p.paused_version, p.paused_reason, micros(p.paused_since), p.failure, p.foreign_files,
    micros(p.checked_at), p.check_position, micros(p.hidden_at), p.history, c.version,
    CASE
        WHEN c.version > coalesce(p.published_version, 0)
            AND (
                p.published_version > 0
                OR p.failure IS NOT NULL
                OR EXISTS (SELECT FROM file f WHERE f.table_id = c.table_id)
            )
        THEN coalesce(
            (
                SELECT micros(e.time)
                FROM event e
                WHERE e.table_id = c.table_id AND e.version = coalesce(p.published_version, 0) + 1
            ),
            micros(p.published_completion)
        )
    END
FROM clock c
LEFT JOIN publication p ON p.table_id = c.table_id
WHERE c.table_id = %(table_id)s
