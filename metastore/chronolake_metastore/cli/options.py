"""The options of commands, made from the settings; and the database that they name."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import msgspec
import typer

from chronolake_metastore import embedded, errors, object_storage, telemetry
from chronolake_metastore.embedded import EmbeddedPostgres
from chronolake_metastore.settings import Setting, Settings, all_settings
from chronolake_metastore.store.postgres import diagnosis
from chronolake_model import environment
from chronolake_model.names import NAME_PATTERN

_DSN_VARIABLE: Final = "CHRONOLAKE_DSN"
_ARCHIVE_VARIABLE: Final = "CHRONOLAKE_ARCHIVE"
_CONTEXT: Final = "context"
_COMMON: Final = ("dsn", "data_dir", "log_format", "log_level")

FindingsMax = Annotated[
    int,
    typer.Option(
        "--max-findings", min=1, help="The largest number of findings to show; further ones are only counted."
    ),
]
ArchiveLocation = Annotated[
    str,
    typer.Option(
        "--archive",
        help="The location of the archive, as a path or a URI (s3://...), outside of all tables. "
        "People who can change the database should not be able to change it.",
        envvar=_ARCHIVE_VARIABLE,
        metavar="FOLDER or URI",
    ),
]
OptionalArchive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        help="The location of the archive, when old rows of the log are there alone.",
        envvar=_ARCHIVE_VARIABLE,
        metavar="FOLDER or URI",
    ),
]
ReportAsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
EVERY: Final = tuple(setting.name for setting in all_settings())
"""The names of all settings."""


def of_settings(
    *names: str, is_optional: bool = False, **defaults: object
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function of settings: each named setting, and the common ones, become options.

    ``defaults`` are those of this command, where they are not those of the class. If the database
    ``is_optional``, the function gets None without one.
    """
    options = {setting.name: setting for setting in all_settings() if setting.name in (*names, *_COMMON)}

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def command(**arguments: Any) -> None:
            values = {name: arguments.pop(name) for name in options}
            is_folder_given = _is_given(arguments.pop(_CONTEXT), "data_dir")
            _refuse_two_databases(values["dsn"], is_folder_given=is_folder_given)
            values["storage_endpoints"] = tuple(values.get("storage_endpoints") or ())
            values["locations"] = tuple(map(object_storage.location_of, values.get("locations") or ()))
            settings = Settings(**values | {"dsn": _refuse_empty(values["dsn"])})
            telemetry.configure(settings.log_format, settings.log_level)
            for warning in environment.warnings(os.environ, [setting.variable for setting in all_settings()]):
                typer.echo(f"chronolake-metastore: {warning}", err=True)
            is_left_out = is_optional and not settings.dsn and not is_folder_given
            function(None if is_left_out else settings, **arguments)

        _, *others = inspect.signature(function, eval_str=True).parameters.values()
        context = inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [context, *(_parameter(setting, defaults) for setting in options.values()), *others]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        return command

    return decorate


def _parameter(setting: Setting, defaults: dict[str, object]) -> inspect.Parameter:
    """A parameter from which typer makes the option of a setting."""
    value_type, default = setting.type, defaults.get(setting.name, setting.default)
    declarations = [setting.flag]
    if value_type == Sequence[str]:
        value_type = list[str]
    if value_type in (bool, bool | None):
        declarations = [f"{setting.flag}/--no-{setting.flag.removeprefix('--')}"]
    if default in ("", ()):
        value_type, default = value_type | None, None
    option = typer.Option(
        *declarations,
        envvar=setting.variable,
        help=setting.option.help,
        min=setting.option.min,
        max=setting.option.max,
        metavar=setting.option.metavar,
        case_sensitive=False,
    )
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[value_type, option],
    )


class SettingSource(msgspec.Struct, frozen=True):
    """The database that a command line names; ``embedded`` when this process has started it."""

    dsn: str
    embedded: EmbeddedPostgres | None = None


def existing(settings: Settings) -> Settings:
    """``settings`` with the DSN of ``source_of``, for a command that has no use for an empty database.

    Raises ``ConfigurationError`` also when there is no embedded PostgreSQL yet: none is made then.
    """
    if not settings.dsn and not embedded.has_database(settings.data_dir):
        raise errors.ConfigurationError(
            f"there is no embedded database in {settings.data_dir}; name the data folder of the server with "
            "--data-dir, or its PostgreSQL with --dsn"
        )
    return of_source(settings, source_of(settings))


def of_source(settings: Settings, source: SettingSource) -> Settings:
    """``settings`` with the DSN of a source, and the default location beside an embedded PostgreSQL."""
    places = settings.locations
    if source.embedded is not None and not places:
        places = [object_storage.location_of(str(settings.data_dir.expanduser() / "tables"))]
    return msgspec.structs.replace(settings, dsn=source.dsn, locations=places)


def source_of(settings: Settings) -> SettingSource:
    """The DSN of the settings, or that of the embedded PostgreSQL, which is started.

    Raises ``ConfigurationError``.
    """
    if not settings.dsn:
        started = embedded.start(settings.data_dir)
        return SettingSource(started.dsn, started)
    diagnosis.refuse_malformed(settings.dsn)
    return SettingSource(settings.dsn)


def checked_namespace(name: str) -> str:
    """``name``, which is one that a namespace may have. Raises ``ConfigurationError``."""
    if not re.fullmatch(NAME_PATTERN.removesuffix("$"), name, re.ASCII):
        raise errors.ConfigurationError(f"{name[:200]!r} is not the name of a namespace")
    return name


def name_of(settings: Settings) -> str:
    """The database of the settings, as an operator knows it, without a password."""
    if not settings.dsn:
        return f"the embedded database in {settings.data_dir.expanduser().resolve()}"
    return diagnosis.name_of(settings.dsn)


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether the command line has an option; the environment does not count."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse_two_databases(dsn: str | None, *, is_folder_given: bool) -> None:
    """Raise ``ConfigurationError`` if the command line names a data folder, and there is a DSN too.

    The folder of the environment variable is a default, as that of the container image.
    """
    if dsn is not None and is_folder_given:
        raise errors.ConfigurationError(
            f"--data-dir and a DSN (--dsn or {_DSN_VARIABLE}) name two databases; give one of them"
        )


def _refuse_empty(dsn: str | None) -> str:
    """The DSN; empty if none was given. Raises ``ConfigurationError`` when an empty one was given.

    Its sender meant a database. The embedded one in its place would look as if all tables were lost.
    """
    if dsn is None and _DSN_VARIABLE not in os.environ:
        return ""
    if not (dsn or "").strip():
        raise errors.ConfigurationError(
            f"the DSN is empty; name a PostgreSQL with --dsn or {_DSN_VARIABLE}, or give neither (unset "
            f"{_DSN_VARIABLE}) to use the embedded one"
        )
    assert dsn is not None
    return dsn
