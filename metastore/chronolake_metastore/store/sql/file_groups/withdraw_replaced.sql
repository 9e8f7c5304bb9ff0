-- Withdraw the replacements that completed after the pinned instants of restores: these file groups exist again.
WITH restored AS MATERIALIZED (
    SELECT restore.table_id, restore.completion_time AS at, saved.completion_time AS back_to
    FROM unnest(%(table_id)s::uuid[], %(requested_time)s::bigint[]) AS named (table_id, requested_time)
    JOIN instant restore
        ON restore.table_id = named.table_id AND restore.requested_time = moment(named.requested_time)
    JOIN instant savepoint ON savepoint.table_id = restore.table_id AND savepoint.requested_time = restore.target
    JOIN instant saved ON saved.table_id = savepoint.table_id AND saved.requested_time = savepoint.target
)
UPDATE replaced_group r
SET withdrawn_at = restored.at
FROM restored
WHERE r.table_id = restored.table_id AND r.replaced_at > restored.back_to AND r.withdrawn_at IS NULL
