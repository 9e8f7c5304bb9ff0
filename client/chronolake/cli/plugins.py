"""Commands that other packages add, by entry points of the group ``chronolake.commands``.

``chronolake.cli.context`` is the interface for them. The entry point ``services run`` is the command ``run`` of
``chronolake services``.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import typer

from chronolake.cli import context, options

GROUP = "chronolake.commands"
_OF_ARROW = frozenset({"fastavro", "numpy", "obstore", "pyarrow"})
_HELP_FLAGS = frozenset({"--help", "--show-completion", "--install-completion"})


def add_to(app: typer.Typer, args: Sequence[str]) -> None:
    """Add the plug-ins that the command line ``args`` may need.

    A plug-in is imported only when its name is in ``args``, or when all commands are listed. So an unrelated
    plug-in cannot slow down or break a command.
    """
    for entry in _entry_points(args):
        of_group, _, name = entry.name.rpartition(" ")
        target = _group(app, of_group) if of_group else app
        try:
            function = entry.load()
        except (ImportError, AttributeError) as exc:
            _add_absent(target, entry.name, exc)
        else:
            target.command(name)(options.with_common_options(_explained(entry.name, function)))


def _group(app: typer.Typer, name: str) -> typer.Typer:
    """The commands of one noun, to which a plug-in named ``noun verb`` adds one."""
    for known in app.registered_groups:
        if known.typer_instance is not None and known.typer_instance.info.name == name:
            return known.typer_instance
    group = typer.Typer(name=name, no_args_is_help=True)
    app.add_typer(group)
    return group


def _entry_points(args: Sequence[str]) -> Iterator[importlib.metadata.EntryPoint]:
    all_shown = not args or not _HELP_FLAGS.isdisjoint(args) or all(word.startswith("-") for word in args)
    for entry in importlib.metadata.entry_points(group=GROUP):
        if all_shown or entry.name.split()[0] in args:
            yield entry


def _explained(name: str, function: Callable[..., Any]) -> Callable[..., None]:
    """``function``, with an error message for imports that fail when it runs."""

    @functools.wraps(function)
    def command(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except ModuleNotFoundError as exc:
            _fail_absent(name, exc)

    return command


def _add_absent(app: typer.Typer, name: str, reason: Exception) -> None:
    def absent(ctx: typer.Context) -> None:
        context.note(wants_json="--json" in ctx.args)
        _fail_absent(name, reason)

    absent.__doc__ = "Not installed: pip install 'chronolake\\[spark-local]'"
    # All options are accepted, so that the message is always the same.
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(name.rpartition(" ")[2], context_settings=settings)(absent)


def _fail_absent(name: str, reason: Exception) -> NoReturn:
    extra = "arrow" if name == "ingest" and getattr(reason, "name", None) in _OF_ARROW else "spark-local"
    context.fail(
        f"`chronolake {name}` cannot be loaded ({reason}); install it with: pip install 'chronolake[{extra}]'"
    )
