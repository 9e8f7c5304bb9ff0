"""The one door by which JSON is decoded, and values are converted, into types.

msgspec (0.22.0) describes a ``Struct`` at its first use, without a lock. A second thread that uses the type
meanwhile sees half a description, and the process dies by SIGSEGV. Here a type is described under a lock,
before its first use. A test searches the source for other uses (tests/client/test_decoding.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar, overload

import msgspec

_T = TypeVar("_T")
# Reentrant: to describe a type, msgspec calls Python.
_LOCK: Final = threading.RLock()
_DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


@overload
def decoder(type_: type[_T]) -> msgspec.json.Decoder[_T]: ...
@overload
def decoder(type_: Any) -> msgspec.json.Decoder[Any]: ...
def decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    """The decoder of JSON for a type. Any thread may use it."""
    known = _DECODERS.get(type_)
    if known is not None:
        return known
    with _LOCK:
        return _DECODERS.setdefault(type_, msgspec.json.Decoder(type_))


@overload
def decode(content: bytes | bytearray | memoryview | str, type_: type[_T]) -> _T: ...
@overload
def decode(content: bytes | bytearray | memoryview | str, type_: Any) -> Any: ...
def decode(content: bytes | bytearray | memoryview | str, type_: Any) -> Any:
    """As ``msgspec.json.decode``."""
    return decoder(type_).decode(content)


@overload
def convert(value: object, type_: type[_T]) -> _T: ...
@overload
def convert(value: object, type_: Any) -> Any: ...
def convert(value: object, type_: Any) -> Any:
    """As ``msgspec.convert``."""
    decoder(type_)
    return msgspec.convert(value, type_)


def decode_with(content: bytes, type_: type[_T], hook: Callable[[type[Any], Any], Any]) -> _T:
    """As ``msgspec.json.decode`` with a ``dec_hook``."""
    decoder(type_)
    return msgspec.json.decode(content, type=type_, dec_hook=hook)


def prepare(package: str) -> None:
    """Describe all types of the modules that are imported and whose names begin so.

    For programs in which another library decodes them too, before they start threads.
    """
    for type_ in _subclasses(msgspec.Struct):
        if type_.__module__.startswith(package):
            try:
                decoder(type_)
            except (TypeError, NameError):
                # It can not be decoded at all, so no thread describes it.
                continue


def _subclasses(type_: type[Any]) -> Iterator[type[Any]]:
    for subclass in type_.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)
