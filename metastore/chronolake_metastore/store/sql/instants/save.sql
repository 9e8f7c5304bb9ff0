-- Save instants in their present state. The columns are listed in schema.py; some of them never change.
INSERT INTO instant ({instant_names})
SELECT {instant_values}
FROM (SELECT {instant_rows}) AS saved
ON CONFLICT ON CONSTRAINT instant_requested_unique DO UPDATE
SET {instant_updates}
