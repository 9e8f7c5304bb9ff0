"""chronolake_spark"""

from __future__ import annotations
