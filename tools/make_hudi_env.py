"""Make the environment of ``make test-hudi``: ``python tools/make_hudi_env.py <folder>``.

It fetches pyspark 3.5.9 with pip (about 320 MB), and Hudi's Spark bundle 1.2.0 with Spark's own resolver of
packages (81 MB). Both stay in the folder; a second run fetches nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

PYSPARK: Final = "pyspark==3.5.9"
BUNDLE: Final = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
JAR: Final = "hudi-spark-bundle.jar"
_RESOLVE: Final = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.ivy", sys.argv[2]).getOrCreate().stop()
"""


def main() -> None:
    """Make what is missing in the folder."""
    folder = Path(sys.argv[1]).absolute()
    python, jar = folder / "bin" / "python", folder / JAR
    if not python.exists():
        print(f"Installing {PYSPARK} into {folder}: about 320 MB.", flush=True)
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PYSPARK, "setuptools"]
    subprocess.run(pip, check=True)
    if jar.exists():
        return
    print(f"Fetching {BUNDLE} into {folder}: 81 MB.", flush=True)
    packages = folder / "ivy"
    subprocess.run([str(python), "-c", _RESOLVE, BUNDLE, str(packages)], check=True)
    [fetched] = (packages / "jars").glob("org.apache.hudi_*.jar")
    shutil.move(fetched, jar)


if __name__ == "__main__":
    main()
