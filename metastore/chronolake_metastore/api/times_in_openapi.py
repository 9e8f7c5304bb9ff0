"""The patterns of times in the OpenAPI document. They match only times, and some wrong 29ths of February.

The server's own decoder asks for digits only, and then says which part of a time is wrong.
"""

from __future__ import annotations

from typing import Final

from chronolake_model.times import INSTANT_TIME_PATTERN, READ_TIME_PATTERN

_YEAR: Final = "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DAY: Final = (
    "((0[13578]|1[02])(0[1-9]|[12][0-9]|3[01])|(0[469]|11)(0[1-9]|[12][0-9]|30)|02(0[1-9]|1[0-9]|2[0-9]))"
)
_TIME: Final = f"{_YEAR}{_DAY}([01][0-9]|2[0-3])[0-5][0-9][0-5][0-9][0-9]{{3}}([0-9]{{3}})?"

INSTANT_TIME: Final = f"^{_TIME}$"
READ_TIME: Final = f"^({_TIME}|earliest|latest)$"
PATTERNS: Final = {INSTANT_TIME_PATTERN: INSTANT_TIME, READ_TIME_PATTERN: READ_TIME}
"""The pattern in the document for each pattern of the model."""
