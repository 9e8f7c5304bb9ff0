"""Make the environment of ``make test-hudi``: ``python tools/make_hudi_env.py <folder>``.

It fetches pyspark 3.5.9 with pip (about 320 MB), and with Spark's own resolver of packages Hudi's Spark bundle
1.2.0 (81 MB) and Hadoop's S3A (282 MB). Each jar is compared with its SHA-256. All stay in the folder; a second
run fetches nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

PYSPARK: Final = "pyspark==3.5.9"
BUNDLE_JAR: Final = "hudi-spark-bundle.jar"
# S3A of the Hadoop that pyspark brings, with the version of the SDK that it was built with.
S3_JARS: Final = (
    "hadoop-aws-3.3.4.jar",
    "aws-java-sdk-bundle-1.12.262.jar",
    "wildfly-openssl-1.0.7.Final.jar",
)
_PACKAGES: Final = {
    "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0": [BUNDLE_JAR],
    "org.apache.hadoop:hadoop-aws:3.3.4": [*S3_JARS],
}
"""The jars of each package, its own and those that it needs."""
_FETCHED_AS: Final = {BUNDLE_JAR: "hudi-spark3.5-bundle_2.12-1.2.0.jar"}
_SHA256: Final = {
    BUNDLE_JAR: "cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
    "hadoop-aws-3.3.4.jar": "53f9ae03c681a30a50aa17524bd9790ab596b28481858e54efd989a826ed3a4a",
    "aws-java-sdk-bundle-1.12.262.jar": "873fe7cf495126619997bec21c44de5d992544aea7e632fdc77adb1a0915bae5",
    "wildfly-openssl-1.0.7.Final.jar": "9f7058778978ec2ad90c7224401a4b0013d93e0dd3fa0f72b25244ffa3507ca8",
}
_RESOLVE: Final = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.ivy", sys.argv[2]).getOrCreate().stop()
"""


def main() -> None:
    """Make what is missing in the folder."""
    folder = _folder()
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"Installing {PYSPARK} into {folder}: about 320 MB.", flush=True)
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PYSPARK, "setuptools"]
    subprocess.run(pip, check=True)
    for package, jars in _PACKAGES.items():
        if not all((folder / jar).exists() for jar in jars):
            _fetch(python, package, jars, folder)


def _folder() -> Path:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of the environment; it is made if it is missing")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    return folder.absolute()


def _fetch(python: Path, package: str, jars: list[str], folder: Path) -> None:
    print(f"Fetching {package} into {folder}.", flush=True)
    cache = folder / "ivy"
    subprocess.run([str(python), "-c", _RESOLVE, package, str(cache)], check=True)
    for jar in jars:
        [fetched] = (cache / "jars").glob(f"*_{_FETCHED_AS.get(jar, jar)}")
        with fetched.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        if sha256 != _SHA256[jar]:
            sys.exit(f"{fetched} has the SHA-256 {sha256}, not {_SHA256[jar]}: remove {cache} and try again")
        shutil.move(fetched, folder / jar)
    shutil.rmtree(cache)


if __name__ == "__main__":
    main()
