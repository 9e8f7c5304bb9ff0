"""Bringing a database to the schema that this server knows."""

from __future__ import annotations

from importlib import resources

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from chronolake_metastore.store import engine


def upgrade(dsn: str) -> tuple[str | None, str]:
    """Run the migrations that are missing; gives the revision before and after.

    Several may be started at once: they wait for each other. Raises ``DatabaseUnavailable``.
    """
    config = Config()
    config.set_main_option("script_location", str(resources.files("chronolake_migrations")))
    config.attributes["dsn"] = dsn
    head = ScriptDirectory.from_config(config).get_current_head()
    assert head is not None
    with engine.database_errors():
        command.upgrade(config, "head")
    before: str | None = config.attributes["before"]
    return before, head
