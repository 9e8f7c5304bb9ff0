-- Mark the folders of dropped tables that new tables took over. It runs before the rows of the new tables are inserted.
UPDATE base_path b
SET taken_by = named.taken_by
FROM unnest(%(table_id)s::uuid[], %(taken_by)s::uuid[]) AS named (table_id, taken_by)
WHERE b.table_id = named.table_id
