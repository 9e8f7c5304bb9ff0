"""Part of ``make check``: a public class name means one thing in the whole product.

A name may stand in two places that mean the same thing: an error of the server and the client's form of it, a
body of the REST API and the server's own form of it, and what an event loop and threads do differently.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("client", "metastore", "spark_integration")
GENERATED: Final = "client/chronolake/_sync/"
SAME: Final = (
    {"client/chronolake/errors.py", "metastore/chronolake_metastore/errors.py"},
    {"client/chronolake_model/files.py", "metastore/chronolake_metastore/domain/slices.py"},
    {"client/chronolake_model/streams.py", "metastore/chronolake_metastore/domain/table_streams.py"},
    {"client/chronolake_model/tables.py", "metastore/chronolake_metastore/domain/namespaces.py"},
    {"client/chronolake/errors.py", "metastore/chronolake_metastore/api/requests.py"},
    {"client/chronolake/_concurrency/awaiting.py", "client/chronolake/_concurrency/blocking.py"},
)
"""Modules in which a name means the same thing."""
BODIES: Final = "client/chronolake_model/"
SERVERS_FORMS: Final = "metastore/chronolake_metastore/domain/"
EXCEPTIONS: Final[Mapping[str, str]] = {
    "InstantRolledBack": "the event, whose name is in the log, and the error, whose name is that of its code",
    "State": "the state of an instant, and the state that a group of commands has loaded",
}
"""Names that mean two things, each with the reason. None is added."""


def main(root: Path = ROOT, exceptions: Collection[str] = EXCEPTIONS) -> int:
    """Print the names that stand in several places, and exceptions of one place. The exit code is 1 if any."""
    repeated = {name: paths for name, paths in names(root) if is_repeated(paths)}
    for name in sorted(repeated.keys() - set(exceptions)):
        print(f"class {name} is in {', '.join(sorted(repeated[name]))}; give each thing a name of its own")
    stale = sorted(set(exceptions) - repeated.keys())
    for name in stale:
        print(f"class {name} means one thing now: remove it from EXCEPTIONS")
    return 1 if repeated.keys() - set(exceptions) or stale else 0


def names(root: Path) -> Iterator[tuple[str, list[str]]]:
    """The public classes, each with the modules that define one of this name."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            if not path.startswith(GENERATED):
                for node in ast.parse(file.read_text("utf-8")).body:
                    if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                        found[node.name].append(place_of(path, node))
    yield from found.items()


def place_of(path: str, node: ast.ClassDef) -> str:
    """The module of a class. A command of the server has the place of its body, of which it has the name."""
    bases = [ast.unparse(base) for base in node.bases]
    is_command = path.startswith(SERVERS_FORMS) and any(base.endswith("Command") for base in bases)
    return BODIES if is_command else path


def is_repeated(places: Collection[str]) -> bool:
    """Whether the places define a name for different things."""
    nouns = {place.removeprefix(BODIES).removeprefix(SERVERS_FORMS) for place in places}
    is_body = len(places) == 2 and any(place.startswith(BODIES) for place in places)
    return len(places) > 1 and set(places) not in SAME and not (is_body and (len(nouns) == 1 or "" in nouns))


if __name__ == "__main__":
    sys.exit(main())
