"""Give a session of Spark the tables of a metastore as a catalog of SQL."""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark.sql import SparkSession

from chronolake_spark import errors
from chronolake_spark.common.format_options import SECRETS_OPTION
from chronolake_spark.driver import sessions, spark_internals

JAR: Final = Path(__file__).parent.parent / "jars" / "chronolake-spark.jar"
_BUILD: Final = "chronolake/spark/build"
"""The entry of the jar that says what it was made of."""
LAKE: Final = "lake"
"""The catalog of a session of ``session``."""
_JARS: Final = "spark.jars"
_PREFIX: Final = "spark.sql.catalog"
_CLASS: Final = "chronolake.spark.ChronolakeCatalog"
_CHANGES_SINCE: Final = (4, 3)
"""The version of Spark that has ``CHANGES FROM``, for which the class has another name."""


def session(
    app_name: str = sessions.NAME,
    *,
    url: str | None = None,
    master: str = sessions.MASTER,
    memory: str = sessions.MEMORY,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session on this machine, or the one that runs already, with the catalog ``lake`` of SQL.

    The catalog has the tables of the metastore at ``url``, by default that of ``chronolake.connect``. If this
    installation has no Java part, there is no catalog. ``memory`` is the driver's, in Java's notation;
    ``settings`` go over those that Chronolake needs. Raises ``JavaNotFound``.
    """
    given = dict(settings or {})
    if JAR.exists():
        given = _settings(LAKE, url, {}, pyspark.__version__) | given
        given[_JARS] = ",".join(filter(None, (str(JAR), given.get(_JARS))))
    spark = sessions.local(app_name, master, memory, given)
    if JAR.exists() and (url is not None or spark.conf.get(f"{_PREFIX}.{LAKE}", None) is None):
        catalog(spark, LAKE, url)
    return spark


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
    if not hasattr(spark, "sparkContext"):
        spark.addArtifacts(str(JAR))
    elif str(JAR) not in spark.sparkContext.getConf().get(_JARS, "").split(","):
        spark.sql(f"ADD JAR '{JAR}'")
    for key, text in _settings(name, url, options or {}, spark.version).items():
        if key.endswith(f".{SECRETS_OPTION}") and hasattr(spark, "sparkContext"):
            # As in Java, which hides it when a statement first names the catalog: jobs may run before.
            spark_internals.set_if_missing(spark, key, "")
        spark.conf.set(key, text)


def _settings(name: str, url: str | None, options: Mapping[str, str], version: str) -> dict[str, str]:
    """The settings of a catalog, for this version of Spark."""
    has_changes = tuple(map(int, version.split(".")[:2])) >= _CHANGES_SINCE
    own = {**({} if url is None else {"url": url}), **options}
    return {
        **{f"{_PREFIX}.{name}.{option}": text for option, text in own.items()},
        f"{_PREFIX}.{name}": f"{_CLASS}WithChanges" if has_changes else _CLASS,
    }


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
