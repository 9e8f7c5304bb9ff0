"""The Iceberg catalog: tables as Iceberg's metadata, made from the log and kept in the tables' storage.

Spec: https://iceberg.apache.org/spec/ (format version 2).
"""
