"""Writes the classes of errors of server and client from the table of problems; ``make check`` compares them.

They are written so that type checkers and editors know each class, its parent and its meaning. A class that a
module defines by hand is left out (docs/decisions/0078-written-once.md).
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from chronolake_model.problems import ProblemCode

ROOT: Final = Path(__file__).parents[1]
BEGINNING: Final = (
    "# ---- Written from chronolake_model.problems by tools/write_errors.py (`make sync`): do not edit.\n"
)
END: Final = "# ---- End of the written classes.\n"
WIDTH: Final = 96

CLIENT: Final = ROOT / "client/chronolake/errors.py"
SERVER: Final = ROOT / "metastore/chronolake_metastore/errors.py"
PARENTS: Final[Mapping[Path, Mapping[int, str]]] = {
    CLIENT: {
        **dict.fromkeys((400, 405, 408, 413, 415, 422), "InvalidRequest"),
        **dict.fromkeys((401, 403), "AccessRefused"),
        404: "NotFound",
        **dict.fromkeys((409, 410), "Conflict"),
        **dict.fromkeys((429, 503), "ServerUnavailable"),
        500: "ServerError",
    },
    SERVER: {
        403: "AccessRefused",
        404: "NotFound",
        409: "Conflict",
        422: "Unprocessable",
        **dict.fromkeys((429, 503), "Unavailable"),
    },
}
"""The parent of a class by the status of its code, in each module."""
OTHERS: Final = {CLIENT: "RequestRefused", SERVER: "TimelineError"}
"""The parent of a class by other statuses."""
NOT_IN: Final = {
    CLIENT: frozenset[ProblemCode](),
    SERVER: frozenset(
        {
            ProblemCode.ROUTE_NOT_FOUND,
            ProblemCode.METHOD_NOT_ALLOWED,
            ProblemCode.BODY_TOO_SLOW,
            ProblemCode.BODY_TOO_LARGE,
            ProblemCode.UNSUPPORTED_MEDIA_TYPE,
            ProblemCode.INTERNAL_ERROR,
        }
    ),
}
"""Codes without a class in a module: Litestar answers them, and the code that runs before a handler."""


def main(arguments: Sequence[str]) -> int:
    """Write the classes; with ``--check`` only say which modules differ. Gives the exit code."""
    texts = {module: module.read_text(encoding="utf-8") for module in PARENTS}
    generated = {module: written(module, text) for module, text in texts.items()}
    differing = [module for module, text in texts.items() if generated[module] != text]
    if arguments == ["--check"]:
        for module in differing:
            print(f"{module.relative_to(ROOT)} differs from the table of problems: run `make sync`")
        return 1 if differing else 0
    for module in differing:
        module.write_text(generated[module], encoding="utf-8")
    return 0


def written(module: Path, text: str) -> str:
    """The text of a module with the classes of all codes that it does not define by hand."""
    before, rest = text.split(BEGINNING)
    _, after = rest.split(END)
    by_hand = set(re.findall(r"^class (\w+)", before + after, re.MULTILINE))
    classes = (
        _class(code, PARENTS[module].get(code.status, OTHERS[module]))
        for code in ProblemCode
        if code not in NOT_IN[module] and code.class_name not in by_hand
    )
    return f"{before}{BEGINNING}{''.join(classes)}\n\n{END}{after}"


def _class(code: ProblemCode, parent: str) -> str:
    docstring = f"{code.title}. {code.advice}"
    if len(docstring) > WIDTH:
        wrapped = "\n".join(textwrap.wrap(code.advice, WIDTH))
        docstring = textwrap.indent(f"{code.title}.\n\n{wrapped}\n", " " * 4).lstrip() + " " * 4
    return f'\n\nclass {code.class_name}({parent}):\n    """{docstring}"""\n'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
