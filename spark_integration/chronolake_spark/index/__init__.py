"""The file group of each key: of keys that exist, and of new ones."""
