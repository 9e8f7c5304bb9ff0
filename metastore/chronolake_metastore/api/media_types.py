"""The media type of a body: JSON in UTF-8, neither compressed nor otherwise encoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chronolake_metastore.errors import TimelineError
from chronolake_model.problems import ProblemCode

_JSON: Final = "application/json"
_UTF_8: Final = ("utf-8", "utf8")
_ENCODINGS: Final = {"content-encoding": "identity", "transfer-encoding": "chunked"}
"""Headers that may say that a body is encoded, and what they may say."""


class UnsupportedMediaType(TimelineError):
    """The body has a media type that the server does not accept."""

    code = ProblemCode.UNSUPPORTED_MEDIA_TYPE


def refuse_other(headers: Mapping[str, str]) -> None:
    """Raise ``UnsupportedMediaType`` unless the headers, in lower case, say that the body is plain JSON.

    Strict on purpose: a browser sends ``text/plain``, and bodies without a type, to any server without asking
    it first, so that any page could send commands to a server that listens on loopback.
    """
    if headers.get("content-type") == _JSON and not headers.keys() & _ENCODINGS.keys():
        return
    media_type, *parameters = (part.strip().lower() for part in headers.get("content-type", "").split(";"))
    if media_type != _JSON:
        raise UnsupportedMediaType(f"send the body with Content-Type: {_JSON}, not {media_type[:100]!r}")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "charset" and value.strip('"') not in _UTF_8:
            raise UnsupportedMediaType(f"send the body in UTF-8, not {value[:100]!r}")
    for name, plain in _ENCODINGS.items():
        if (encoding := headers.get(name, plain).lower()) != plain:
            raise UnsupportedMediaType(f"send the body without encoding, not with {name}: {encoding[:100]!r}")
