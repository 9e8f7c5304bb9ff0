-- The column stats of a write stat as an object: for each field id an array of min, max and nulls.
CREATE FUNCTION chronolake.stats_by_column(column_stats json) RETURNS jsonb
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (
        SELECT jsonb_object_agg(of_column.stats ->> 0, of_column.stats - 0)
        FROM jsonb_array_elements(column_stats::jsonb) AS of_column (stats)
    );
