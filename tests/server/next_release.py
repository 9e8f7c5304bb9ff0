"""The command line of a release that does not exist yet: it knows one revision more (``NEXT_REVISION``)."""

from __future__ import annotations

from pathlib import Path

from chronolake_metastore.store.postgres import schema

NEXT_REVISION = "9999"
FOLDER_VARIABLE = "NEXT_RELEASE_MIGRATIONS"
OPTION = "-c chronolake.release=next"
"""A setting that this release sends to PostgreSQL on each connection, and no earlier one does."""
MIGRATION = """
    ALTER TABLE chronolake.event
        ADD COLUMN release text NOT NULL DEFAULT current_setting('chronolake.release')
"""
"""The worst that a release may do to those before it: they cannot append to the log any more."""


def write_migrations(folder: str, migration: str = MIGRATION) -> None:
    """Add the next revision to a copy of the migrations."""
    versions = Path(folder, "chronolake_migrations", "versions")
    script = f"versions/{NEXT_REVISION}_next.sql"
    (versions / f"{NEXT_REVISION}_next.py").write_text(
        "from __future__ import annotations\n"
        "from chronolake_migrations.scripts import execute\n"
        f"revision, down_revision = {NEXT_REVISION!r}, {schema.REVISION!r}\n"
        "branch_labels = depends_on = None\n"
        "def upgrade() -> None:\n"
        f"    execute({script!r})\n",
        encoding="utf-8",
    )
    (versions.parent / script).write_text(f"SET LOCAL chronolake.release = 'next';\n{migration};\n", "utf-8")


if __name__ == "__main__":
    schema.REVISION = NEXT_REVISION  # type: ignore[misc]
    # Only now: modules take the revision over when they are imported.
    from chronolake_metastore.cli import main

    main.main()
