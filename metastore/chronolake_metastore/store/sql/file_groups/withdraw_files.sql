-- Withdraw the files that completed after the pinned instants of restores: they leave the latest slices, and supersede no
-- other file any more. Reads as of a time before the restore still have them.
WITH restored AS MATERIALIZED (
    SELECT restore.table_id, restore.completion_time AS at, saved.completion_time AS back_to
    FROM unnest(%(table_id)s::uuid[], %(requested_time)s::bigint[]) AS named (table_id, requested_time)
    JOIN instant restore
        ON restore.table_id = named.table_id AND restore.requested_time = moment(named.requested_time)
    JOIN instant savepoint ON savepoint.table_id = restore.table_id AND savepoint.requested_time = restore.target
    JOIN instant saved ON saved.table_id = savepoint.table_id AND saved.requested_time = savepoint.target
)
UPDATE file f
SET withdrawn_at = restored.at, superseded_at = least(f.superseded_at, restored.at)
FROM restored
WHERE f.table_id = restored.table_id
    AND f.live_from > restored.back_to
    AND f.live_from >= f.completion_time -- always; so that the index on live_from can be used
    AND f.completion_time > restored.back_to
    AND f.withdrawn_at IS NULL
