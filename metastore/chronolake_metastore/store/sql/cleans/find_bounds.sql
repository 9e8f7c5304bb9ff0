-- The bounds of a clean of a table: the completion time of the last write after skipping the newest ones, the requested
-- time of the oldest pending write whose stream, if it has one, is not silent, the completion times that savepoints and readers hold, what is published, and the
-- first time that a reader holds with all later ones. Then how far the wall clock has jumped ahead since the hours of the
-- policy began: at most, if it was also set back. Last, the requested time of the last clean that completed.
SELECT
    (
        SELECT micros(i.completion_time)
        FROM instant i
        WHERE i.table_id = %(table_id)s::uuid
            AND i.completion_time IS NOT NULL
            AND i.action IN ('commit', 'deltacommit', 'replacecommit')
        ORDER BY i.completion_time DESC
        OFFSET %(skip)s::bigint
        LIMIT 1
    ),
    (
        SELECT micros(min(i.requested_time))
        FROM instant i
        WHERE i.table_id = %(table_id)s::uuid
            AND i.state IN ('requested', 'inflight')
            AND i.action IN ('commit', 'deltacommit', 'replacecommit')
            AND NOT EXISTS (
                SELECT
                FROM stream s
                WHERE s.table_id = i.table_id
                    AND s.name = i.stream ->> 'name'
                    AND s.lease_expires_at <= moment(%(now)s)
            )
    ),
    ARRAY(
        SELECT micros(saved.completion_time)
        FROM instant savepoint
        JOIN instant saved ON saved.table_id = savepoint.table_id AND saved.requested_time = savepoint.target
        WHERE savepoint.table_id = %(table_id)s::uuid
            AND savepoint.action = 'savepoint'
            AND savepoint.state = 'completed'
        UNION
        SELECT micros(r.as_of)
        FROM reader r
        WHERE r.table_id = %(table_id)s::uuid AND r.as_of IS NOT NULL AND r.expires_at > moment(%(now)s)
    ),
    (
        SELECT micros(p.published_completion)
        FROM publication p
        JOIN lake_table t ON t.table_id = p.table_id
        WHERE p.table_id = %(table_id)s::uuid
            -- Publication that is off holds nothing, once the table is hidden from Hudi's readers.
            AND CASE
                WHEN t.definition -> 'properties' ->> 'hudi.publish' = 'false'
                    THEN p.hidden_at IS NULL AND (p.published_version > 0 OR p.epoch > 0)
                ELSE p.published_version > 0 OR p.lease_expires_at > moment(%(now)s)
            END
    ),
    (
        SELECT micros(min(coalesce(r.as_of, moment(0))))
        FROM reader r
        WHERE r.table_id = %(table_id)s::uuid AND r.follows AND r.expires_at > moment(%(now)s)
    ),
    (
        SELECT coalesce(greatest(max(later.sum_us), 0), 0)
        FROM (
            SELECT sum(j.jump_us) OVER (ORDER BY j.steady_time DESC, j.jump_id DESC) AS sum_us
            FROM clock_jump j
            WHERE j.steady_time > moment(%(hours_began_at)s::bigint)
        ) AS later
    ),
    (
        SELECT micros(i.requested_time)
        FROM instant i
        WHERE i.table_id = %(table_id)s::uuid AND i.action = 'clean' AND i.state = 'completed'
        ORDER BY i.requested_time DESC
        LIMIT 1
    )
