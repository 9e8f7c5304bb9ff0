-- Folders of dropped tables that new ones took over; those of tables that are made at the same time are not there yet.
UPDATE base_path b
SET taken_by = named.taken_by
FROM unnest(%(table_id)s::uuid[], %(taken_by)s::uuid[]) AS named (table_id, taken_by)
WHERE b.table_id = named.table_id
