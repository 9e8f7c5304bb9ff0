-- Add instants that have not changed since they were begun. The other columns of such an instant are null: they are not
-- sent, because batches begin thousands.
INSERT INTO instant ({begun_names}, extra_metadata)
SELECT {begun_values}, '{}'
FROM (SELECT {begun_rows}) AS added
