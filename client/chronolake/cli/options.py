"""Arguments and options that several commands share, and the parsers of their values."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from chronolake.cli import context
from chronolake_model import cuts
from chronolake_model.names import NAME_PATTERN, split_table_name
from chronolake_model.times import TIME_FORMS, Bound, digits_of, parse_time
from chronolake_model.visible_text import visible

_COMMON = "Common options"
_NAMESPACE = re.compile(NAME_PATTERN, re.ASCII)

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The server's URL. The default is the variable CHRONOLAKE_URL, else http://127.0.0.1:7077.",
        rich_help_panel=_COMMON,
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="A profile of ~/.config/chronolake/config.toml. The default is the variable CHRONOLAKE_PROFILE.",
        rich_help_panel=_COMMON,
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="A file with the token. The default is the variable CHRONOLAKE_TOKEN or CHRONOLAKE_TOKEN_FILE.",
        rich_help_panel=_COMMON,
    ),
]
CaFileOption = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        metavar="FILE",
        help="The CAs to trust for https. The default is the variable CHRONOLAKE_CA_FILE, else the usual ones.",
        rich_help_panel=_COMMON,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Write one JSON document to stdout.", rich_help_panel=_COMMON)
]


_COMMON_OPTIONS: dict[str, tuple[Any, Any]] = {
    "url_": (UrlOption, None),
    "profile_": (ProfileOption, None),
    "token_file_": (TokenFileOption, None),
    "ca_file_": (CaFileOption, None),
    "json_": (JsonOption, False),
}


def with_common_options(function: Callable[..., None]) -> Callable[..., None]:
    """``function`` as a command that also accepts the common options, so that they may come last."""

    @functools.wraps(function)
    def command(
        *args: Any,
        url_: str | None,
        profile_: str | None,
        token_file_: Path | None,
        ca_file_: Path | None,
        json_: bool,
        **kwargs: Any,
    ) -> None:
        context.note(url=url_, profile=profile_, token_file=token_file_, ca_file=ca_file_, wants_json=json_)
        function(*args, **kwargs)

    own = inspect.signature(function, eval_str=True)
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _COMMON_OPTIONS.items()
    ]
    # Typer reads both the signature and the annotations.
    command.__signature__ = own.replace(parameters=[*own.parameters.values(), *common])  # type: ignore[attr-defined]
    annotated = {name: parameter.annotation for name, parameter in own.parameters.items()}
    of_common = {name: annotation for name, (annotation, _) in _COMMON_OPTIONS.items()}
    command.__annotations__ = {**annotated, **of_common, "return": None}
    return command


def group(name: str, summary: str, *commands: tuple[str, Callable[..., None]]) -> typer.Typer:
    """The commands of one noun, with the common options."""
    app = typer.Typer(name=name, help=summary, no_args_is_help=True)
    for command_name, function in commands:
        app.command(command_name)(with_common_options(function))
    return app


def table_name(text: str) -> str:
    """A table's name; anything else is a usage error."""
    try:
        split_table_name(text)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc
    return text


def optional_instant_time(text: str | None) -> str | None:
    """An instant's requested time in its digits, if there is one; anything else is a usage error."""
    return None if text is None else instant_time(text)


def optional_table_name(text: str | None) -> str | None:
    """A table's name, if there is one; anything else is a usage error."""
    return None if text is None else table_name(text)


def instant_time(text: str) -> str:
    """An instant's requested time in its digits; anything else is a usage error."""
    try:
        parse_time(text)
    except ValueError as exc:
        raise typer.BadParameter(f"{exc}; `chronolake timeline TABLE` shows these times") from exc
    return text


def namespace_name(text: str) -> str:
    """A namespace's name; anything else is a usage error."""
    if not _NAMESPACE.fullmatch(text):
        raise typer.BadParameter(f"the name of a namespace has only letters, digits, _ and -, not {text!r}")
    return text


def any_namespace(text: str | None) -> str | None:
    """A namespace's name, or none; anything else is a usage error."""
    return None if text is None else namespace_name(text)


def moment(text: str | None) -> str | None:
    """An instant's time, from its digits or an ISO 8601 date or time (in UTC unless it says otherwise)."""
    if text in list(Bound):
        raise typer.BadParameter(f"{text!r} is no time: give {TIME_FORMS}")
    return read_time(text)


def read_time(text: str | None) -> str | None:
    """A completion time as readers give it: as ``moment``, ``earliest`` or ``latest``, or the JSON of a cut."""
    try:
        if text is not None and cuts.is_json(text):
            return cuts.Cut.from_json(text).to_json()
        return None if text is None else digits_of(text)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc


def properties(texts: list[str], option: str = "--property") -> dict[str, str]:
    """The values of ``option``, each ``name=value``. An empty or repeated name is a usage error."""
    named: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise typer.BadParameter(f"it must be name=value, not {text!r}", param_hint=option)
        if name in named:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint=option)
        named[name] = value
    return named


def storage(texts: list[str] | None) -> dict[str, str]:
    """The storage options in the values of ``StorageOption``."""
    return properties(texts or [], "--storage")


def confirm(question: str, yes: bool) -> None:
    """Ask the user to confirm; any answer other than yes ends the command with the exit code 1."""
    if yes:
        return
    # typer.confirm writes to stdout, which must have only the JSON document.
    print(visible(f"{question} [y/N] "), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        context.fail("not confirmed, so nothing was done; answer y, or give --yes")


TableArgument = Annotated[
    str, typer.Argument(metavar="NAMESPACE.TABLE", help="The table.", callback=table_name, show_default=False)
]
TimeArgument = Annotated[
    str,
    typer.Argument(
        metavar="TIME",
        help="The instant's requested time, in digits.",
        callback=instant_time,
        show_default=False,
    ),
]
SavepointArgument = Annotated[
    str,
    typer.Argument(
        metavar="SAVEPOINT",
        help="The savepoint's own requested time, in digits.",
        callback=instant_time,
        show_default=False,
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="The reason. It is kept in the log.")]
WriterOption = Annotated[
    str | None,
    typer.Option(
        "--writer", metavar="NAME", help="The writer's name. The default is user@host:pid.", show_default=False
    ),
]
PropertyOption = Annotated[
    list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property; may be repeated.")
]
IfNotExistsOption = Annotated[
    bool, typer.Option("--if-not-exists", help="If the name exists already, change nothing.")
]
ReuseBasePathOption = Annotated[
    bool,
    typer.Option(
        "--reuse-base-path",
        help="Take over the base path of dropped tables. Their files are never deleted after that.",
    ),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--storage",
        metavar="NAME=VALUE",
        help="An option for storage in S3: endpoint_override, access_key, secret_key, session_token, region; "
        "or credentials=vended, for keys from the server. May be repeated. Other options come from the "
        "environment, as in AWS's tools.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
