"""The first time that a Hudi table is served as of, against the rule in its plain form."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, strategies as st

from chronolake.hudi.served import KnownFile, first_servable
from chronolake_model.file_names import FileKind

_BORDER = "900"
_GROUP = ("", "f")


@st.composite
def _files(draw: st.DrawFn) -> list[KnownFile]:
    """Archived files of one file group."""
    requested = draw(st.lists(st.integers(100, 500), unique=True, min_size=1, max_size=12))
    return [
        KnownFile(
            _GROUP,
            f"file-{time}",
            draw(st.sampled_from([FileKind.BASE, FileKind.LOG])),
            str(time),
            str(time + draw(st.integers(1, 300))),
            exists=draw(st.booleans()),
            is_archived=True,
        )
        for time in requested
    ]


def _left_at(file: KnownFile, files: Sequence[KnownFile]) -> str:
    since = file.requested_time if file.kind is FileKind.BASE else file.completion_time
    bases = [other for other in files if other.kind is FileKind.BASE and other.requested_time > since]
    return min([base.completion_time for base in bases], default=_BORDER)


@given(files=_files())
def test_each_missing_file_is_gone_from_the_first_completion_of_a_later_base_file_on(
    files: list[KnownFile],
) -> None:
    expected = max((_left_at(file, files) for file in files if not file.exists), default=None)
    assert first_servable(files, [], {}, _BORDER) == expected
