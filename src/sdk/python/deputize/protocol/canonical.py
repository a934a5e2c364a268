"""Canonical JSON, the form that proofs are bound to (wire format §3)."""

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import cast

from .errors import ProtocolError

MAX_SAFE_INTEGER = 2**53 - 1
_MAX_DEPTH = 64


def canonical_bytes(value: object) -> bytes:
    """Returns the canonical JSON of `value` in UTF-8.

    Accepts `None`, `bool`, `str`, `int`, `float`, lists, tuples, and dicts with text as keys.

    Raises `ProtocolError`:
    - `unsupported_value` for values that JSON cannot represent
    - `invalid_number` for numbers that are not finite, and whole numbers outside ±(2^53-1)
    - `invalid_utf8` for text with a lone surrogate
    - `too_deep` for more than 64 levels of nesting
    """
    return _written(value, 0).encode("utf-8")


def _written(value: object, depth: int) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return _number(value)
    if not isinstance(value, list | tuple | dict | MappingProxyType):
        raise ProtocolError("unsupported_value", f"a {type(value).__name__} has no canonical form")
    if depth >= _MAX_DEPTH:
        raise ProtocolError("too_deep", f"more than {_MAX_DEPTH} levels of nesting")
    if isinstance(value, list | tuple):
        items = cast(Sequence[object], value)
        return f"[{','.join(_written(item, depth + 1) for item in items)}]"
    mapping = cast(Mapping[object, object], value)
    keys = [key for key in mapping if isinstance(key, str)]
    if len(keys) < len(mapping):
        raise ProtocolError("unsupported_value", "the keys of an object must be text")
    # Python orders text by code point, which is the order of its UTF-8 bytes.
    members = (f"{_text(key)}:{_written(mapping[key], depth + 1)}" for key in sorted(keys))
    return f"{{{','.join(members)}}}"


def well_formed(text: str) -> str:
    """Returns `text`. Raises `ProtocolError` `invalid_utf8` if it contains a surrogate."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ProtocolError("invalid_utf8", "text with a lone surrogate")
    return text


def _text(text: str) -> str:
    written = json.dumps(well_formed(text), ensure_ascii=False)
    return written.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _number(value: float) -> str:
    is_whole = isinstance(value, int) or (math.isfinite(value) and value.is_integer())
    if not is_whole and math.isfinite(value):
        return _fraction(value)
    if not is_whole or abs(value) > MAX_SAFE_INTEGER:
        raise ProtocolError("invalid_number", "the number has no canonical form")
    return str(int(value))


def _fraction(value: float) -> str:
    """Writes a number with a fraction as ECMAScript does. It is always below 2^53."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    # The position of the decimal point, counted from the first digit.
    point = len(text) + int(exponent)
    minus = "-" if sign else ""
    if point > 0:
        return f"{minus}{text[:point]}.{text[point:]}"
    if point > -6:
        return f"{minus}0.{'0' * -point}{text}"
    first, rest = text[0], text[1:]
    return f"{minus}{first}{'.' if rest else ''}{rest}e{point - 1}"
