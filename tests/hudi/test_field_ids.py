from __future__ import annotations

from pathlib import Path

import hudi
import pytest

from chronolake_model.vocabulary import TableType
from tests.hudi import nested_tables


@pytest.mark.parametrize("table_type", TableType)
@pytest.mark.parametrize("base_has_ids", [True, False])
@pytest.mark.parametrize("second_has_ids", [True, False])
def test_hudi_reads_files_with_field_ids_as_those_without(
    tmp_path: Path, table_type: TableType, base_has_ids: bool, second_has_ids: bool
) -> None:
    expected = nested_tables.write(
        tmp_path, table_type, base_has_ids=base_has_ids, second_has_ids=second_has_ids
    )

    rows = [row for batch in hudi.HudiTable(str(tmp_path)).read() for row in batch.to_pylist()]

    names = [field.name for field in nested_tables.FIELDS]
    own = [{name: row[name] for name in names} for row in sorted(rows, key=lambda row: int(row["id"]))]
    assert own == expected
