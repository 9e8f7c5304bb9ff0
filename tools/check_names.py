"""Part of ``make check``: a public class name means one thing in the whole product.

A name may stand in two places that mean the same thing: an error of the server and the client's form of it, a
body of the REST API and the server's own form of it, and what an event loop and threads do differently.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("client", "metastore", "spark_integration")
GENERATED: Final = "client/chronolake/_sync/"
SAME: Final = (
    {"client/chronolake/errors.py", "metastore/chronolake_metastore/errors.py"},
    {"client/chronolake/errors.py", "metastore/chronolake_metastore/api/media_types.py"},
    {"client/chronolake/_concurrency/awaiting.py", "client/chronolake/_concurrency/blocking.py"},
)
"""Modules in which a name means the same thing."""
BODIES: Final = "client/chronolake_model/"
SERVERS_FORMS: Final = "metastore/chronolake_metastore/domain/"
EXCEPTIONS: Final = frozenset(
    {
        *(
            "AnswersHead",
            "Bounds",
            "BufferedCheckpoint",
            "ChainHead",
            "Changes",
            "Check",
            "Column",
            "Conflict",
            "Deletable",
        ),
        *(
            "FileSlice",
            "Finding",
            "InstantRolledBack",
            "LogFormat",
            "Namespace",
            "Outcome",
            "Page",
            "Partition",
            "Plan",
            "Publication",
        ),
        *("Publisher", "Refusal", "Replacement", "Result", "State", "Step", "TaskResult", "View"),
    }
)
"""Names that still mean two things. None is added."""


def main(root: Path = ROOT) -> int:
    """Print the names that stand in several places. The exit code is 1 if there are any."""
    repeated = {name: paths for name, paths in names(root) if is_repeated(paths) and name not in EXCEPTIONS}
    for name, paths in sorted(repeated.items()):
        print(f"class {name} is in {', '.join(sorted(paths))}; give each thing a name of its own")
    return 1 if repeated else 0


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
