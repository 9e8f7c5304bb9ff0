"""Text of other users is shown at a terminal, and not executed there."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, strategies as st

import chronolake
from chronolake.cli import output, terminal
from chronolake_model.visible_text import visible
from tests.client.conftest import Cli

# The title of the window, an empty screen, a line of another text, and text from right to left.
EVIL = "\x1b]0;title\x07\x1b[2J\x9b2K\r\u202e[bold]a[/bold]"
EXECUTED = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2066"} - {"\n", "\t"}
HARMLESS = "a\tb\nÄ 漢 👩\u200d💻 \u200f\u0639"


@given(st.text(st.sampled_from([*EXECUTED, *'a\\u0\n\t"é'])))
def test_no_character_that_a_terminal_executes_remains(text: str) -> None:
    assert EXECUTED.isdisjoint(visible(text))
    document = output.json_document({"a": [text]})
    assert EXECUTED.isdisjoint(document)
    assert json.loads(document) == {"a": [text]}


def test_other_text_stays_as_it_is() -> None:
    assert visible(HARMLESS) == HARMLESS
    assert visible("\x1b[2J\x9b\u202e") == "\\x1b[2J\\x9b\\u202e"


def test_a_console_executes_nothing_of_what_it_prints() -> None:
    file = io.StringIO()
    terminal.console(file).print(EVIL, markup=False, soft_wrap=True)
    assert "title" in file.getvalue()
    assert EXECUTED.isdisjoint(file.getvalue())


@pytest.mark.parametrize("wanted", [(), ("--json",)])
def test_t51_text_of_a_writer_is_not_executed_by_the_terminal_of_another_user(
    cli: Cli, table: chronolake.Table, wanted: tuple[str, ...]
) -> None:
    table.alter(set={"owner": EVIL})
    instant = table.begin(writer=EVIL)
    instant.rollback(EVIL)
    ran = [
        cli("timeline", table.name, "--state", "rolled_back", *wanted),
        cli("instant", table.name, instant.requested_time, *wanted),
        cli("tables", "show", table.name, *wanted),
        cli("rollback", table.name, instant.requested_time, *wanted),
    ]
    assert [("title" in each.out + each.err) for each in ran] == [True] * 4, ran[-1].out + ran[-1].err
    assert EXECUTED.isdisjoint("".join(each.out + each.err for each in ran))
