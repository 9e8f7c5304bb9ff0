INSERT INTO base_path (table_id, key, is_checked, taken_by)
SELECT table_id, key, is_checked, taken_by
FROM unnest(%(table_id)s::uuid[], %(key)s::text[], %(is_checked)s::boolean[], %(taken_by)s::uuid[])
    AS saved (table_id, key, is_checked, taken_by)
