"""Mounts below a base path are never followed, and nothing is deleted where a mount leads to another table.

Each test mounts for real, in a mount namespace of its own, so that nothing is left to unmount.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storage.mounted import INSTANT, NAME

ROOT = Path(__file__).parents[2]
IS_ROOT = os.geteuid() == 0


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """The folders of two tables with files of the same name."""
    for folder in ("orders/day=1", "orders/day=2/hour=3", "other/day=1"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / NAME).write_bytes(b"precious")
    return tmp_path


def mounted(lake: Path, mount: str, code: str) -> list[str]:
    """The lines that ``code`` prints in a mount namespace where the shell command ``mount`` was executed.

    ``files`` are those of the table, ``delete`` deletes through its guard.
    """
    own_namespace = ["unshare", "--mount", *([] if IS_ROOT else ["--user", "--map-root-user"])]
    may_mount = (
        IS_ROOT or "CI" in os.environ or not subprocess.run([*own_namespace, "true"], check=False).returncode
    )
    if not may_mount:
        pytest.skip("this account may not mount")
    program = f"import os\nfrom tests.storage.mounted import *\n{code}"
    script = f'{mount} && exec {sys.executable} -c "$PROGRAM"'
    done = subprocess.run(
        [*own_namespace, "sh", "-c", script],
        check=False,
        cwd=lake,
        env=os.environ | {"PROGRAM": program, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


MOUNTS = {
    "a bind mount of the same file system": "mount --bind other/day=1 orders/day=1",
    "another file system": "mount -t tmpfs none orders/day=1 && cp other/day=1/* orders/day=1",
    "a bind mount of the table's own partition": "mount --bind orders/day=2/hour=3 orders/day=1",
}


@pytest.mark.parametrize("mount", MOUNTS.values(), ids=MOUNTS)
def test_nothing_is_deleted_through_a_mount(lake: Path, mount: str) -> None:
    deleted = mounted(
        lake, mount, "print(delete(f'day=1/{NAME}'))\nprint(os.path.exists(f'orders/day=1/{NAME}'))"
    )

    assert "day=1 is a mount" in deleted[0]
    assert deleted[1] == "True"
    assert (lake / "other" / "day=1" / NAME).read_bytes() == b"precious"
    assert (lake / "orders" / "day=2/hour=3" / NAME).read_bytes() == b"precious"


def test_nothing_is_deleted_through_a_mount_deeper_down(lake: Path) -> None:
    mount = "mount --bind other/day=1 orders/day=2/hour=3"

    [failure, other] = mounted(
        lake, mount, "print(delete(f'day=2/hour=3/{NAME}'))\nprint(delete(f'day=1/{NAME}'))"
    )

    assert "hour=3 is a mount" in failure
    assert other == "None"
    assert (lake / "other" / "day=1" / NAME).exists()


def test_nothing_is_deleted_through_a_mount_of_a_folder_of_markers(lake: Path) -> None:
    markers = f".hoodie/.temp/{INSTANT}"
    (lake / "orders" / markers / "day=1").mkdir(parents=True)
    marker = lake / "other" / "day=1" / f"{NAME}.marker.CREATE"
    marker.touch()

    [failure] = mounted(
        lake,
        f"mount --bind other/day=1 orders/{markers}/day=1",
        f"print(delete(f'{markers}/day=1/{{NAME}}.marker.CREATE'))",
    )

    assert "day=1 is a mount" in failure
    assert marker.exists()


def test_a_mount_is_listed_as_one_file_and_nothing_is_written_through_it(lake: Path) -> None:
    code = """
print(sorted(file.path for file in files.listing()))
for attempt in (
    lambda: list(files.sizes([f"day=1/{NAME}"])),
    lambda: list(files.create_all_empty(["day=1/new"])),
    lambda: files.put("day=1/new", b""),
    lambda: files.open_new(f"day=1/{NAME}"),
):
    try:
        print(attempt())
    except Exception as exc:
        print(exc)
"""
    listed, *refusals = mounted(lake, "mount --bind other/day=1 orders/day=1", code)

    assert listed == str(["day=1", f"day=2/hour=3/{NAME}"])
    assert ["is a mount" in refusal for refusal in refusals] == [True] * 4
    assert [path.name for path in (lake / "other" / "day=1").iterdir()] == [NAME]
    assert (lake / "other" / "day=1" / NAME).read_bytes() == b"precious"


def test_a_base_path_may_be_a_mount_itself(lake: Path) -> None:
    (lake / "alias").mkdir()

    [failure] = mounted(
        lake,
        "mount --bind orders alias && mv other gone && mount --bind orders orders",
        "print(delete(f'day=1/{NAME}'))",
    )

    assert failure == "None"
    assert not (lake / "orders" / "day=1" / NAME).exists()


SHARED = {
    "a part of another table": ("mount --bind other/day=1 orders", "other"),
    "a part of another table that has no other path": (
        "mkdir 'a b' && mount --bind other 'a b' && mount --bind other/day=1 orders "
        "&& mount -t tmpfs none other",
        "a b",
    ),
    "a folder below a part of another table": (
        "mount --bind other lent && mv orders gone && ln -s lent/day=1 orders",
        "other",
    ),
    "a folder that is mounted into another table": (
        "mkdir other/day=2 && mount --bind orders other/day=2",
        "other",
    ),
    "a folder whose parent is mounted into another table": (
        "mkdir other/day=2 && mount --bind . other/day=2",
        "other",
    ),
}


@pytest.mark.parametrize("is_dropped", [False, True], ids=["live", "dropped"])
@pytest.mark.parametrize(("mount", "other"), SHARED.values(), ids=SHARED)
def test_nothing_is_claimed_or_deleted_where_a_mount_shares_a_folder_with_another_table(
    lake: Path, mount: str, other: str, is_dropped: bool
) -> None:
    (lake / "lent").mkdir()
    (lake / "orders" / NAME).touch()
    (lake / "other/day=1" / NAME).touch()
    code = f"""
[path] = [path for path in (NAME, f"day=1/{{NAME}}") if os.path.exists(f"orders/{{path}}")][:1]
add_table({other!r}, is_dropped={is_dropped})
print(delete(path))
claim("orders", OWNER)
print(delete(path))
print(os.path.exists(f"orders/{{path}}"))
"""
    unclaimed, claimed, exists = mounted(lake, mount, code)

    assert "orders of the table shop.orders overlaps" in unclaimed
    assert "orders of the table shop.orders overlaps" in claimed
    assert exists == "True"


@pytest.mark.parametrize("metastore", ["metastore-1", "metastore-2"])
def test_nothing_is_claimed_or_deleted_in_a_mount_of_a_folder_below_a_claim(lake: Path, metastore: str) -> None:
    code = f"""
claim("other", Owner({metastore!r}, "table-2", "shop.other"))
print(delete(NAME))
claim("orders", OWNER)
print(delete(NAME))
"""
    unclaimed, claimed = mounted(lake, "mount --bind other/day=1 orders", code)

    assert "other/.hoodie/.chronolake-claim.json is of the table shop.other" in unclaimed
    assert "other/.hoodie/.chronolake-claim.json is of the table shop.other" in claimed
    assert (lake / "other" / "day=1" / NAME).read_bytes() == b"precious"


def test_mounts_of_different_folders_of_a_disk_do_not_overlap(lake: Path) -> None:
    mount = "mkdir -p lent && mount --bind other/day=1 lent && mount --bind orders orders"

    [failure] = mounted(lake, mount, "add_table('other')\nadd_table('lent')\nprint(delete(f'day=1/{NAME}'))")

    assert failure == "None"
