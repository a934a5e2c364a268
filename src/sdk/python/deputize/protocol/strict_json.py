"""Reads JSON as strictly as the wire format requires (§5)."""

import json
import math
from typing import NoReturn

from .canonical import MAX_SAFE_INTEGER, well_formed
from .errors import ProtocolError
from .plain import is_object, is_sequence

MAX_DOCUMENT_BYTES = 131_072
MAX_DOCUMENT_DEPTH = 16
_BODY_DEPTH = 64


def parse_json(
    document: bytes, *, max_bytes: int = MAX_DOCUMENT_BYTES, max_depth: int = MAX_DOCUMENT_DEPTH
) -> object:
    """Parses one JSON document.

    Raises `ProtocolError` `too_large`, `invalid_utf8` (also for an escaped lone surrogate), `invalid_json`,
    `too_deep`, `duplicate_key`, `invalid_integer` (a plain integer outside ±(2^53-1)) or `invalid_number`.
    """
    if len(document) > max_bytes:
        raise ProtocolError("too_large", f"{len(document)} bytes, at most {max_bytes} are read")
    try:
        text = document.decode("utf-8")
    except UnicodeDecodeError:
        raise ProtocolError("invalid_utf8", "the document is not well-formed UTF-8") from None
    try:
        value: object = json.loads(
            text,
            object_pairs_hook=_members,
            parse_int=_whole,
            parse_float=_float,
            parse_constant=_constant,
        )
    except ProtocolError:
        raise
    except RecursionError:
        raise _too_deep(max_depth) from None
    except ValueError:
        raise ProtocolError("invalid_json", "the document is not JSON") from None
    _check(value, max_depth)
    return value


def parse_body(document: bytes) -> object:
    """Parses the body of a request as `parse_json`, with up to 64 levels of nesting."""
    return parse_json(document, max_bytes=len(document), max_depth=_BODY_DEPTH)


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ProtocolError("duplicate_key", "a key occurs twice")
    return members


def _whole(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > MAX_SAFE_INTEGER:
        raise ProtocolError("invalid_integer", "outside ±(2^53-1)")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or (value.is_integer() and abs(value) > MAX_SAFE_INTEGER):
        raise ProtocolError("invalid_number", "not finite, or a whole number outside ±(2^53-1)")
    return value


def _constant(name: str) -> NoReturn:
    raise ProtocolError("invalid_json", f"{name} is not JSON")


def _too_deep(max_depth: int) -> ProtocolError:
    return ProtocolError("too_deep", f"more than {max_depth} objects and arrays are open")


def _check(value: object, depth: int) -> None:
    """Checks what the parser accepts: lone surrogates and deep nesting. `depth`: levels that are left."""
    if isinstance(value, str):
        well_formed(value)
    elif is_object(value) or is_sequence(value):
        if depth == 0:
            raise ProtocolError("too_deep", "too many objects and arrays are open")
        for item in value:
            _check(item, depth - 1)
        if is_object(value):
            for member in value.values():
                _check(member, depth - 1)
