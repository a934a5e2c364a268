"""Finds path segments that a constraint cannot see."""

import re
import unicodedata

_ENCODED_BYTE = re.compile(r"%(?:u00)?([0-9a-f]{2})", re.ASCII | re.IGNORECASE)
# Decoders that accept overlong UTF-8 also read these bytes as `.` and as `/`.
_OVERLONG_DOT = re.compile("\xc0\xae|\xe0\x80\xae")
_OTHER_SEPARATORS = re.compile("\\\\|\xc0\xaf|\xe0\x80\xaf")
_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f]")
# What servers cut off a segment: parameters, a query, a fragment, and spaces at the end (Windows).
_AFTER_SEGMENT = re.compile(r"[;?#][^/]*|(?<! ) +(?=/|\Z)")
_BYTES = re.compile("[\x80-\xff]+")
_MOST_ENCODINGS = 3


def hides_dot_segment(path: str) -> bool:
    """Returns whether a server that decodes `path` can read a `.` or `..` segment that is not plain.

    Such a segment is also one of characters that Unicode's form NFKC turns into dots and slashes. Also
    returns true for an encoded control character, and for text that is still encoded after three decodings.
    """
    if _has_dot_segment(path):
        return False
    text = decode_fully(path)
    if _decoded(text) != text:
        return True
    if text != path and _CONTROL_CHARACTER.search(text):
        return True
    return any(_reads_dot_segment(read) for read in (text, decode_fully(_compatible(text))))


def _reads_dot_segment(text: str) -> bool:
    plain = _OTHER_SEPARATORS.sub("/", _OVERLONG_DOT.sub(".", text))
    return _has_dot_segment(_AFTER_SEGMENT.sub("", plain))


def _compatible(text: str) -> str:
    """Returns the form NFKC of a text in which a character can be one byte of UTF-8."""
    characters = _BYTES.sub(lambda found: found[0].encode("latin-1").decode(errors="replace"), text)
    return unicodedata.normalize("NFKC", characters)


def decode_fully(path: str) -> str:
    """Returns a path in which each byte that is percent-encoded, up to three times, is one character."""
    text = path
    for _ in range(_MOST_ENCODINGS):
        text = _decoded(text)
    return text


def _decoded(text: str) -> str:
    return _ENCODED_BYTE.sub(lambda found: chr(int(found[1], 16)), text)


def _has_dot_segment(path: str) -> bool:
    return any(segment in (".", "..") for segment in path.split("/"))
