"""``format("chronolake")`` and SQL in a session: PySpark's methods, views, and advice."""
