"""Give a session of Spark the tables of a metastore as a catalog of SQL."""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from chronolake_spark import errors

JAR: Final = Path(__file__).parent.parent / "jars" / "chronolake-spark.jar"
_BUILD: Final = "chronolake/spark/build"
"""The entry of the jar that says what it was made of."""
_CLASS: Final = "chronolake.spark.ChronolakeCatalog"
_CHANGES_SINCE: Final = (4, 3)
"""The version of Spark that has ``CHANGES FROM``, for which the class has another name."""


def catalog(spark: Any, name: str, url: str | None = None, options: Mapping[str, str] | None = None) -> None:
    """Make the tables of the metastore at ``url`` known to SQL as ``name.namespace.table``.

    The session may be one of Spark Connect. ``options`` are those of access, as for ``format("chronolake")``:
    ``token_file``, ``ca_file`` and so on; and ``warehouse``, the folder of tables that are made
    without a location. It may be called again. Without Python, as for
    ``spark-submit``, give the jar of this package by ``spark.jars``, and set ``spark.sql.catalog.<name>`` to
    ``chronolake.spark.ChronolakeCatalog`` and ``spark.sql.catalog.<name>.url``.

    Raises ``JarNotFound`` if this installation has no Java part.
    """
    if not JAR.exists():
        raise errors.JarNotFound(
            f"the Java part of the catalog is not built ({JAR.name}): install a wheel of chronolake, or run "
            "make jar in its sources"
        )
    if hasattr(spark, "sparkContext"):
        spark.sql(f"ADD JAR '{JAR}'")
    else:
        spark.addArtifacts(str(JAR))
    prefix = f"spark.sql.catalog.{name}"
    for option, text in {**({} if url is None else {"url": url}), **(options or {})}.items():
        spark.conf.set(f"{prefix}.{option}", text)
    has_changes = tuple(map(int, spark.version.split(".")[:2])) >= _CHANGES_SINCE
    spark.conf.set(prefix, f"{_CLASS}WithChanges" if has_changes else _CLASS)


@functools.cache
def refuse_another_jar(build: str) -> None:
    """Raise ``JarNotFound`` if the jar that Spark runs is not the one of this installation, which has one."""
    if not JAR.exists():
        return
    with zipfile.ZipFile(JAR) as jar:
        installed = jar.read(_BUILD).decode()
    if build != installed:
        raise errors.JarNotFound(
            "the jar of the catalog is of another release than the chronolake in the driver's Python: give "
            f"Spark the jar of that installation, {JAR}, and start the application again"
        )
