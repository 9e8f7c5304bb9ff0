"""Where the records of a table are: the file groups that have the keys of rows, and those that get new ones."""
