"""The refusals of the check of words of ``make check``."""

from __future__ import annotations

import pytest

from tools import check_words


@pytest.mark.parametrize(
    ("source", "problems"),
    [
        ('"""Files of a table."""', []),
        ('"""What a table has."""', ["a docstring begins with a noun or a verb, not with What"]),
        ('N = 1\n"""Of one run."""', ["a docstring begins with a noun or a verb, not with Of"]),
        ('"""The time behind a cursor."""', ["write after, not 'behind'"]),
        ('"""The address; behind a proxy that of the proxy."""', []),
        ('"""A label: ``behind``."""', []),
        ('"""Steps while the database is\n    away."""', ["write unavailable, or deleted, not 'is away'"]),
        ('"""The server looks each second."""', ["write runs or waits, not 'server looks'"]),
    ],
)
def test_a_docstring_is_refused_for_its_words(source: str, problems: list[str]) -> None:
    found = check_words.findings("client/a.py", source)
    assert [finding.partition(": ")[2] for finding in found] == problems


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        (f"{'word ' * 20}\n{'word ' * 22}", ["a.md:1"]),
        (f"# Head\n\n- [{'link ' * 30}](page.md)\n", []),
        (f"```sh\n{'word ' * 22}\n```\n\n| {'word ' * 22} |\n", []),
        ("One paragraph.\n\nWrites that come so\nmany at once.\n", ["a.md:3"]),
    ],
)
def test_a_page_is_refused_for_words_and_for_wide_prose(page: str, lines: list[str]) -> None:
    found = check_words.findings("a.md", page)
    assert [finding.partition(": ")[0] for finding in found] == lines


def test_the_page_that_says_the_rule_is_checked_and_a_generated_one_is_not() -> None:
    checked = set(check_words.files(check_words.ROOT))
    assert {"CONTRIBUTING.md", "docs/glossary.md", "client/chronolake/__init__.py"} <= checked
    assert {"metastore/chronolake_metastore/app.py", "spark_integration/chronolake_spark/tables.py"} <= checked
    assert "docs/reference/rest.md" not in checked
