-- For the other tables that had a name before and were dropped or renamed: the last time that one of them issued under
-- the name, and the requested times that table_id has in common with one of them where either instant is pending. Few
-- instants are pending, and the other instant is looked up by its time. One that may have left PostgreSQL counts as there.
WITH former AS MATERIALIZED (
    SELECT holder.table_id, holder.until, f.instants_from
    FROM (
        SELECT t.table_id, c.last_time AS until
        FROM lake_table t
        JOIN clock c USING (table_id)
        WHERE t.namespace = %(namespace)s AND t.name = %(table)s AND t.dropped_at IS NOT NULL
        UNION ALL
        SELECT e.table_id, e.time
        FROM event e
        WHERE e.type = 'TableAltered'
            AND e.payload ->> 'new_name' IS NOT NULL
            AND (e.payload ->> 'name') COLLATE "C" = %(name)s
            AND e.table_id IS DISTINCT FROM %(table_id)s::uuid
    ) AS holder
    LEFT JOIN first_event f ON f.table_id = holder.table_id
),
shared AS (
    SELECT theirs.requested_time
    FROM former
    JOIN instant theirs ON theirs.table_id = former.table_id AND theirs.state IN ('requested', 'inflight')
    LEFT JOIN instant mine ON mine.table_id = %(table_id)s::uuid AND mine.requested_time = theirs.requested_time
    LEFT JOIN first_event f ON f.table_id = %(table_id)s::uuid AND f.instants_from > theirs.requested_time
    WHERE theirs.requested_time <= former.until AND (mine.table_id IS NOT NULL OR f.table_id IS NOT NULL)
    UNION
    SELECT mine.requested_time
    FROM instant mine
    JOIN former ON mine.requested_time <= former.until
    LEFT JOIN instant theirs ON theirs.table_id = former.table_id AND theirs.requested_time = mine.requested_time
    WHERE mine.table_id = %(table_id)s::uuid
        AND mine.state IN ('requested', 'inflight')
        AND (theirs.table_id IS NOT NULL OR mine.requested_time < former.instants_from)
)
SELECT
    (SELECT micros(max(until)) FROM former),
    ARRAY(SELECT micros(requested_time) FROM shared ORDER BY requested_time LIMIT 10)
