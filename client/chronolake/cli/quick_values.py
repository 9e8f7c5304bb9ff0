"""Values of the command line that need no conversion, or only that to a word of an enumeration.

Typer converts all values by pydantic, whose import takes a fifth of the time of a short command.
"""

from __future__ import annotations

import enum
from typing import Any

from typer.core import TyperCommand
from typing_extensions import override


class QuickCommand(TyperCommand):
    """A command that imports pydantic only for values that need it."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As of the base class."""
        convert_quickly(self.get_params(ctx))
        return super().parse_args(ctx, args)


def convert_quickly(parameters: list[Any]) -> None:
    """Convert simple values of these parameters here. A typer that works otherwise converts them itself."""
    for parameter in parameters:
        if hasattr(parameter, "get_runtime_param") and hasattr(parameter, "type_descriptor"):
            parameter._runtime_param = _Quick()


class _Quick:
    """Converts simple values; others are left to typer."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """As ``RuntimeParam.coerce``."""
        wanted, how = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if not (param.multiple or param.nargs != 1 or getattr(how, "parser", None)):
            if value is None or (wanted in (str, int) and type(value) is wanted):
                return value
            if isinstance(wanted, type) and issubclass(wanted, enum.StrEnum) and value in list(wanted):
                return wanted(value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
