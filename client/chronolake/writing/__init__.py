"""How rows become files of a table, in Arrow: by the client, and by the tasks of Spark."""
