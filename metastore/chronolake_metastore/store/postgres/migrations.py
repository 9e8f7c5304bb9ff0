"""Bringing a database to the schema that this server knows."""

from __future__ import annotations

from importlib import resources

import msgspec
import psycopg
import sqlalchemy
from alembic import command, util
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import errors as postgres_errors, sql

from chronolake_metastore import errors
from chronolake_metastore.store.postgres import diagnosis, engine


class Migrated(msgspec.Struct, frozen=True):
    """The revision before and after, and PostgreSQL's warnings."""

    before: str | None
    after: str
    warnings: list[str]


def upgrade(dsn: str) -> Migrated:
    """Run the missing migrations, and grant the roles their rights again.

    Several may be started at once: they wait for each other. Raises ``ConfigurationError``, and
    ``DatabaseUnavailable`` when the connection is lost on the way.
    """
    diagnosis.refuse_malformed(dsn)
    config = Config()
    config.set_main_option("script_location", str(resources.files("chronolake_migrations")))
    config.attributes["dsn"] = dsn
    warnings: list[str] = []
    config.attributes["warnings"] = warnings
    head = ScriptDirectory.from_config(config).get_current_head()
    assert head is not None
    try:
        with engine.database_errors():
            command.upgrade(config, "head")
    except util.CommandError as exc:
        raise errors.ConfigurationError(diagnosis.of_revision(config.attributes.get("before"))) from exc
    except (postgres_errors.InsufficientPrivilege, sqlalchemy.exc.ProgrammingError) as exc:
        cause = diagnosis.of_postgres(exc)
        if not isinstance(cause, postgres_errors.InsufficientPrivilege):
            raise
        raise _not_allowed(cause, config.attributes["login"]) from exc
    except errors.DatabaseUnavailable as exc:
        cause = diagnosis.of_postgres(exc.__cause__)
        if "login" in config.attributes or not isinstance(cause, psycopg.OperationalError):
            raise
        raise diagnosis.of_connecting(cause) from exc
    return Migrated(config.attributes["before"], head, warnings)


def view(name: str) -> str:
    """The statements that make a view."""
    script = resources.files("chronolake_migrations").joinpath("baseline", "views", f"{name}.sql")
    return script.read_text("utf-8")


def _not_allowed(exc: postgres_errors.InsufficientPrivilege, login: str) -> errors.ConfigurationError:
    grant = sql.SQL("GRANT chronolake_server TO {}").format(sql.Identifier(login)).as_string()
    return errors.ConfigurationError(
        f"the login {login!r} may not migrate ({exc.diag.message_primary}); migrate as the owner of the schema "
        "chronolake or, when there is none yet, as a login with CREATEROLE, and CREATE on the database. "
        f"To serve, it needs no more than: {grant}"
    )
