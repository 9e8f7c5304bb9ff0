"""Writes the references in docs/reference from the code itself: `make docs`.

A test compares what is there with what this would write, so that a reference cannot say what the code does not.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final

import msgspec
import typer
from litestar import Litestar
from litestar.routes import HTTPRoute
from msgspec.inspect import type_info
from prometheus_client import Metric

import chronolake_model
from chronolake.cli import main as client_cli, output
from chronolake_metastore.api import forms, health
from chronolake_metastore.app import create_app
from chronolake_metastore.cli import main as server_cli
from chronolake_metastore.domain import definitions, events, lists, proof, stored_events
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.settings import Setting, Settings, all_settings
from chronolake_metastore.workers import registry
from chronolake_model import checks, environment
from chronolake_model.problems import ProblemCode
from docs import (
    audit_reference,
    hudi_cli_reference,
    markdown_text,
    option_reference,
    property_reference,
    python_reference,
)

FOLDER: Final = Path(__file__).parent / "reference"
Json = dict[str, Any]

_MARKDOWN: Final = forms.Markup(
    link=lambda name: f"[{name}](#{name.lower()})", constant=lambda value: f"`{value}`"
)
_WRITTEN_BY: Final = "<!-- Written by docs/generate.py: change the code, then run `make docs`. -->\n"
_MODULES: Final = (
    health,
    *(
        importlib.import_module(f"chronolake_model.{module.name}")
        for module in pkgutil.iter_modules(chronolake_model.__path__)
    ),
)
"""The modules that define bodies."""


def main() -> None:
    """Write every page."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """The text of each page, by the name of its file."""
    made: dict[str, Iterable[str]] = {
        "rest.md": _rest(),
        "settings.md": _settings(),
        "cli.md": _cli(),
        "hudi-cli.md": hudi_cli_reference.lines(),
        "events.md": _events(),
        "metrics.md": _metrics(),
        "audit.md": audit_reference.lines(),
        "decisions.md": _decisions(),
        "properties.md": property_reference.lines(),
        "spark-options.md": option_reference.lines(),
        "python.md": python_reference.lines(),
    }
    return {name: "\n".join([_WRITTEN_BY, *lines]).rstrip() + "\n" for name, lines in made.items()}


# ---- REST


def _rest() -> list[str]:
    app = create_app(Settings(dsn=""))
    openapi: Json = app.openapi_schema.to_schema()
    about = _handler_docstrings(app)
    lines = [
        "# The REST API",
        "",
        "Bodies and answers are JSON. A time is an instant time in UTC: 17 digits (`yyyyMMddHHmmssSSS`), or 20 "
        "for a table with a tick of a microsecond. A running server has the OpenAPI document at "
        "`/openapi.json`; `chronolake-metastore openapi` prints it. `GET /` lists the other addresses. Each "
        "path that takes `GET` takes `HEAD`.",
        "",
        "A range (from, to] has times later than `from`, and at or before `to`. A list comes in pages: send "
        "`next_cursor` as `cursor` with the same other parameters, until it is null.",
        "",
        "A request that changes something takes an `Idempotency-Key`. The same request under the same key gets "
        "the first answer, byte for byte, also if it was a refusal. See "
        "[Outcomes](../concepts/log.md#outcomes-and-idempotency).",
    ]
    for tag, operations in forms.by_tag(openapi).items():
        lines += ["", f"## {tag}"]
        for method, path, operation in operations:
            lines += _operation(method, path, operation, about[method, path])
    lines += ["", "## Bodies"]
    for name, schema in sorted(openapi["components"]["schemas"].items()):
        lines += _schema(name, schema)
    return [*lines, *_problem_codes()]


def _handler_docstrings(app: Litestar) -> dict[tuple[str, str], str]:
    """The docstring of each handler, by method and path."""
    return {
        (method, route.path_format): markdown_text.flowed(handler.fn.__doc__ or "")
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for handler in route.route_handlers
        for method in handler.http_methods
    }


def _operation(method: str, path: str, operation: Json, about: str) -> Iterator[str]:
    yield from ("", f"### `{method} {path}`", "", f"**{operation['summary']}** — {about}")
    if parameters := operation.get("parameters"):
        rows = ((f"`{parameter['name']}`", parameter["in"], *_parameter(parameter)) for parameter in parameters)
        yield from ("", *markdown_text.table(("parameter", "in", "form", "meaning"), rows))
    if body := operation.get("requestBody"):
        optional = "" if body["required"] else "; may be left out"
        yield from ("", f"Body: {forms.form(forms.content(body), _MARKDOWN)}{optional}.")
    answers = (
        (status, forms.forms(response, _MARKDOWN), forms.meaning(status, response))
        for status, response in sorted(operation["responses"].items())
        if status != "414"
    )
    yield from ("", *markdown_text.table(("status", "answer", "when"), answers))


def _parameter(parameter: Json) -> tuple[str, str]:
    required = " (required)" if parameter["required"] and parameter["in"] != "path" else ""
    meaning = parameter.get("description") or {
        "table": "`namespace.table`.",
        "namespace": "The namespace's name.",
        "requested_time": "The instant's requested time, 17 or 20 digits.",
        "schema_version": "The version of the schema, a number from 1.",
        "key": "The request's idempotency key, percent-encoded. A key of slashes only cannot be looked up.",
    }.get(parameter["name"], "")
    return forms.form(parameter["schema"], _MARKDOWN) + required, meaning


def _schema(name: str, schema: Json) -> Iterator[str]:
    yield from ("", f"### {name}")
    about = _docstring(name) or schema.get("description", "")
    if about:
        yield from ("", about)
    if values := schema.get("enum"):
        yield from ("", *_choices(_class(name), values))
        return
    defaults = _defaults(name)
    rows = (
        (
            f"`{field}`",
            forms.form(form, _MARKDOWN),
            defaults.get(field, "required"),
            form.get("description", ""),
        )
        for field, form in _in_order(name, schema["properties"])
    )
    yield from ("", *markdown_text.table(("field", "form", "default", "meaning"), rows))


def _choices(model: type | None, values: Iterable[str]) -> Iterable[str]:
    """A table of the values with their meanings, or one line if the code does not say what they mean."""
    if model is not None and (meanings := markdown_text.meanings(model)):
        return markdown_text.table(("value", "meaning"), meanings)
    return ["One of " + ", ".join(f"`{value}`" for value in values) + "."]


def _docstring(name: str) -> str:
    """The docstring of the class of this name, as one line per paragraph."""
    model = _class(name)
    return "" if model is None else markdown_text.flowed(inspect.getdoc(model) or "")


def _class(name: str) -> type | None:
    return next((vars(module)[name] for module in _MODULES if name in vars(module)), None)


def _in_order(name: str, properties: Mapping[str, Json]) -> Iterable[tuple[str, Json]]:
    """The fields in the order of the class, which is the order in which they are understood."""
    model = _class(name)
    if model is None or not issubclass(model, msgspec.Struct):
        return properties.items()
    tag = model.__struct_config__.tag_field
    names = (*([] if tag is None else [tag]), *model.__struct_encode_fields__)
    return ((field, properties[field]) for field in names)


def _defaults(name: str) -> dict[str, str]:
    """The default of each field that may be left out, by its name in the body."""
    model = _class(name)
    if model is None or not issubclass(model, msgspec.Struct):
        return {}
    return {field.encode_name: _default(field) for field in msgspec.structs.fields(model) if not field.required}


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    if isinstance(value, msgspec.Struct):
        return "its own defaults"
    if value is msgspec.UNSET:
        return "left out"
    return f"`{msgspec.json.encode(value).decode()}`"


def _problem_codes() -> Iterator[str]:
    yield from (
        "",
        "## Problem codes",
        "",
        "Every refusal and every failure is a problem document (RFC 9457) with one of these codes. Programs "
        "use `code`; its meaning does not change once it is released. `Retry-After` of a 503 is the number of "
        "seconds to wait.",
        "",
    )
    rows = ((f"`{code}`", str(code.status), code.title, code.advice) for code in ProblemCode)
    yield from markdown_text.table(("code", "status", "title", "what to do"), rows)


# ---- settings and commands


class _Flag(msgspec.Struct, frozen=True):
    """An option or argument of a command, as far as a reader needs it."""

    usage: str
    variable: str
    default: str
    help: str


def _settings() -> list[str]:
    lines = [
        "# The settings of the server",
        "",
        "Each setting is a flag of `chronolake-metastore` and an environment variable. The flag wins. "
        "There is no configuration file.",
    ]
    for name, command in _commands(typer.main.get_command(server_cli.app)):
        lines += ["", f"## `chronolake-metastore {name}`", "", markdown_text.flowed(command.help)]
        if flags := [_flag(parameter) for parameter in command.params]:
            rows = ((flag.usage, flag.variable, flag.default, flag.help) for flag in flags)
            lines += ["", *markdown_text.table(("flag", "variable", "default", "meaning"), rows)]
    findings = markdown_text.table(("check", "finds"), markdown_text.meanings(proof.Check))
    return [*lines, "", "## Background workers", "", *_workers(), "", "## Findings of `verify`", "", *findings]


def _workers() -> Iterator[str]:
    yield from ("Each server runs these, unless the setting of a worker is 0.", "")
    settings = {setting.name: setting for setting in all_settings()}
    rows = (
        (
            worker.name,
            worker.does,
            "one at a time" if worker.has_leader else "every",
            "always" if worker.setting is None else _interval(settings[worker.setting]),
        )
        for worker in registry.WORKERS
    )
    yield from markdown_text.table(("worker", "does", "servers that search for work", "setting"), rows)


def _interval(setting: Setting) -> str:
    return f"`{setting.flag}`" + ("" if setting.default else ", off by default")


def _cli() -> list[str]:
    root = typer.main.get_command(client_cli.app_for(["--help"]))
    lines = [
        "# The command `chronolake`",
        "",
        "`chronolake` is the command of the client. It sends requests to a server. `--url`, `--profile`, "
        "`--token-file`, `--ca-file` and `--json` may stand before or after the subcommand. "
        "These variables and [profiles](../security.md#clients) replace them:",
        "",
        ", ".join(f"`{name}`" for name in sorted(environment.OF_CLIENTS)) + ".",
        "",
        output.EXIT_CODES,
    ]
    for name, command in _commands(root):
        lines += ["", f"## `chronolake {name}`", "", markdown_text.flowed(command.help)]
        described = ((flag.usage, flag.default, flag.help) for flag in map(_flag, command.params))
        lines += ["", *markdown_text.table(("argument or option", "default", "meaning"), described)]
    findings = markdown_text.table(("finding", "means"), markdown_text.meanings(checks.FindingKind))
    return [*lines, "", "## Findings of `chronolake check`", "", *findings]


def _commands(group: Any) -> Iterator[tuple[str, Any]]:
    """Every command below ``group``, by its full name; groups themselves are not commands."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", inner_command) for inner, inner_command in _commands(command))
        else:
            yield name, command


def _flag(parameter: Any) -> _Flag:
    return _Flag(
        usage=_usage(parameter),
        variable=f"`{parameter.envvar}`" if parameter.envvar else "",
        default="required" if parameter.required else _default_of(parameter.default),
        help=markdown_text.flowed(parameter.help or ""),
    )


def _usage(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        assert parameter.metavar, f"the argument {parameter.name} has no metavar"
        return f"`{parameter.metavar}`"
    names = ", ".join(f"`{name}`" for name in parameter.opts)
    if parameter.is_flag:
        return ", ".join([names, *(f"`{name}`" for name in parameter.secondary_opts)])
    choices = parameter.type_descriptor.choices
    if choices:
        return f"{names} " + " or ".join(f"`{_plain(choice)}`" for choice in choices)
    return f"{names} *{parameter.metavar or parameter.name.strip('_').replace('_', '-')}*"


def _default_of(value: object) -> str:
    # Not by equality: 0 is a default that readers want to see, and equal to False.
    return "" if value is None or value is False or value == "" else f"`{_plain(value)}`"


def _plain(value: object) -> str:
    return str(value.value if isinstance(value, Enum) else value)


# ---- metrics


def _metrics() -> list[str]:
    families = sorted(Metrics().registry.collect(), key=lambda family: family.name)
    rows = ((f"`{_metric(family)}`", family.type, family.documentation) for family in families)
    return [
        "# The metrics of the server",
        "",
        "`GET /metrics` has these figures of one server, in the format of Prometheus. "
        "[Operations](../operations.md#metrics) says which ones to watch.",
        "",
        *markdown_text.table(("metric", "type", "meaning"), rows),
    ]


def _metric(family: Metric) -> str:
    """The name under which Prometheus has the metric."""
    return f"{family.name}_total" if family.type == "counter" else family.name


# ---- decisions


def _decisions() -> Iterator[str]:
    yield from ("# List of decisions", "", "[Decisions](../decisions/README.md) says what a page has.", "")
    pages = sorted((FOLDER.parent / "decisions").glob("[0-9]*.md"))
    titles = (page.read_text("utf-8").partition("\n")[0].removeprefix("# ").split(". ", 1) for page in pages)
    rows = (
        (f"[{number}](../decisions/{page.name})", title)
        for page, (number, title) in zip(pages, titles, strict=True)
    )
    yield from markdown_text.table(("", "decision"), rows)


# ---- events


def _events() -> list[str]:
    lines = [
        "# The events",
        "",
        "The events of a table are rows of `chronolake.event`, ordered by `version`. Each row has the columns "
        "`table_id`, `version`, `type`, `instant` (the requested time of the instant that changed, or null), "
        "`time` (issued by the table's clock), `actor`, `request_id`, `payload`, `previous_hash` and `hash`. "
        "This page has the payload of each type. A field of a frequent event may be left out: it has its "
        "default then, which is null, empty, false, or 1 for `v`.",
    ]
    for name, payload in stored_events.PAYLOADS.items():
        own = "__doc__" in vars(payload) and payload.__doc__
        lines += ["", f"## {name}", *(("", markdown_text.flowed(own)) if own else ())]
        info = type_info(payload)
        assert isinstance(info, msgspec.inspect.StructType)
        rows = ((f"`{field.encode_name}`", _python_form(field.type)) for field in info.fields)
        lines += ["", *markdown_text.table(("field", "form"), rows)]
    return lines


_SCALARS = {
    msgspec.inspect.BoolType: "boolean",
    msgspec.inspect.IntType: "integer",
    msgspec.inspect.StrType: "string",
    msgspec.inspect.UUIDType: "UUID",
    msgspec.inspect.DictType: "object of strings",
}


_SEALED: Final = (
    "sealed list: `count` of its entries (rows of `event_entry`), `digest` over them, the `first` few"
)
_NOT_OF_REST: Final[Mapping[type, str]] = {
    lists.Sealed: _SEALED,
    events.ReportOfTask: "object: `task`, its `attempt`, and whether it has `last_batch` or `end_of_input`",
    definitions.NewDefinition: "as [CreateTable](rest.md#createtable)",
    lists.PlannedWork: (
        "as [RecordedPlan](rest.md#recordedplan), but `file_groups`, `instants` (in microseconds) and "
        f"`files_to_delete` are each a {_SEALED}"
    ),
}


def _python_form(form: msgspec.inspect.Type) -> str:
    match form:
        case msgspec.inspect.StructType(cls=cls) if (own := getattr(cls, "__origin__", cls)) in _NOT_OF_REST:
            return _NOT_OF_REST[own]
        case msgspec.inspect.StructType(cls=cls) | msgspec.inspect.EnumType(cls=cls):
            return f"[{cls.__name__}](rest.md#{cls.__name__.lower()})"
        case msgspec.inspect.ListType(item_type=item):
            return f"list of {_python_form(item)}"
        case msgspec.inspect.UnionType(types=(form, msgspec.inspect.NoneType())):
            return f"{_python_form(form)}, or null"
        case msgspec.inspect.UnionType(types=several):
            return " or ".join(map(_python_form, several))
        case _:
            return _SCALARS[type(form)]


if __name__ == "__main__":
    main()
