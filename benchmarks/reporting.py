"""The report of a benchmark: figures, their targets, and the machine they were measured on."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable

import msgspec
from rich.console import Console
from rich.table import Table


class Row(msgspec.Struct, frozen=True):
    """A line of the report; without a target it is there to be compared with."""

    name: str
    figure: str
    target: str = ""
    met: bool | None = None


def ratio(name: str, rate: float, baseline: float, target: float, unit: str = "cycles/s") -> Row:
    """A rate that must be at least ``target`` times the baseline."""
    times = rate / baseline
    return Row(name, f"{rate:,.0f} {unit} = {times:.2f} x", f">= {target} x", times >= target)


def at_least(name: str, value: float, target: float, unit: str) -> Row:
    """A figure that must not be below ``target``."""
    return Row(name, f"{value:,.0f} {unit}", f">= {target:,.0f} {unit}", value >= target)


def at_most(name: str, value: float, target: float, unit: str) -> Row:
    """A figure that must not be above ``target``."""
    return Row(name, f"{value:,.2f} {unit}", f"<= {target} {unit}", value <= target)


def finish(rows: Iterable[Row], remark: str) -> None:
    """Print the table, with each row as it comes before it; exit 1 when CHECK is set and a target is missed."""
    console = Console()
    table = Table("figure", "value", "target", "")
    missed = False
    for row in rows:
        console.print(f"{row.name}: {row.figure}", style="dim", highlight=False)
        table.add_row(row.name, row.figure, row.target, {None: "", True: "met", False: "missed"}[row.met])
        missed = missed or row.met is False
    console.print(table)
    console.print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {remark}")
    if missed and os.environ.get("CHECK"):
        sys.exit(1)
