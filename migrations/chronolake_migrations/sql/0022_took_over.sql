-- Which tables a table took over is asked for with each table that is read by its name.

CREATE INDEX IF NOT EXISTS base_path_taken ON chronolake.base_path (taken_by) WHERE taken_by IS NOT NULL;
