-- Add new instants. The columns are listed in instant_columns.
INSERT INTO instant ({instant_names})
SELECT {instant_values}
FROM (SELECT {instant_rows}) AS added
