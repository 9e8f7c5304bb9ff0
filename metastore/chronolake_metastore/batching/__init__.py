"""Requests that wait go together to the database: one queue, and lanes that each run one batch at a time."""
