"""Payloads: what an action works on, and what its proof is bound to."""

from enum import Enum
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Literal, cast

from .protocol.canonical import canonical_bytes
from .protocol.errors import ProtocolError
from .protocol.plain import is_mapping, is_sequence

_MAX_DEPTH = 64


class Absent(Enum):
    """The type of `ABSENT`, which stands for no payload. `None` is JSON's `null`."""

    ABSENT = "absent"


ABSENT: Final[Literal[Absent.ABSENT]] = Absent.ABSENT


def frozen_copy(value: object) -> object:
    """Returns a deep copy that no other code can change.

    Objects become read-only mappings, and lists become tuples. Raises `ProtocolError` `too_deep` for more
    than 64 levels of nesting, and TypeError for anything but plain data and bytes.
    """
    if value is ABSENT:
        return ABSENT
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, memoryview):
        return cast(memoryview, value).tobytes()
    return _copy_of(value, 0)


def plain_copy(value: object) -> object:
    """Returns a copy of a frozen payload that has dicts and lists again."""
    if is_mapping(value):
        return {key: plain_copy(member) for key, member in value.items()}
    return [plain_copy(item) for item in value] if is_sequence(value) else value


def payload_digest(payload: object) -> bytes:
    """Returns a frozen payload's SHA-256, 32 bytes, or no bytes without a payload.

    Bytes are hashed unchanged, and any other payload as canonical JSON. Raises `ProtocolError` for a payload
    without a canonical form.
    """
    if payload is ABSENT:
        return b""
    return sha256(payload if isinstance(payload, bytes) else canonical_bytes(payload)).digest()


def _copy_of(value: object, depth: int) -> object:
    if value is None or type(value) in (bool, str):
        return value
    if isinstance(value, int | float) and type(value) in (int, float):
        return 0 if value == 0 else value
    if depth >= _MAX_DEPTH:
        raise ProtocolError("too_deep", f"more than {_MAX_DEPTH} levels of nesting")
    if type(value) in (list, tuple) and is_sequence(value):
        return tuple(_copy_of(item, depth + 1) for item in value)
    if type(value) in (dict, MappingProxyType) and is_mapping(value):
        return MappingProxyType({_key_of(key): _copy_of(value[key], depth + 1) for key in value})
    raise TypeError(f"a payload must be plain data, not a {type(value).__name__}")


def _key_of(key: object) -> str:
    if type(key) is not str:
        raise TypeError("a payload must be plain data: the keys of its objects must be text")
    return key
