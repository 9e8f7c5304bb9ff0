-- Add new instants. The columns are listed in schema.py.
INSERT INTO instant ({instant_names})
SELECT {instant_values}
FROM (SELECT {instant_rows}) AS added
