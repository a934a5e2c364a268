"""Proofs as applications receive them: the value of a header, or a member of a JSON object."""

import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .protocol.errors import ProtocolError
from .protocol.plain import is_mapping, is_object
from .protocol.strict_json import parse_json

ProofSource = str | Mapping[str, Any]

_MAX_TEXT = 180_000
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof in the form that verify expects: a member's name, and its JSON exactly as it arrived.

    `agent_id`: the agent in a bundle. A reference contains none. Untrusted until verify has responded.
    """

    member: Literal["proof_bundle", "proof_ref"]
    json: str
    agent_id: str | None


def read_proof(source: object) -> Proof | None:
    """Reads a proof: a bundle as JSON, in base64 or in base64url, or a `proof_ref`.

    Does not change the bundle's content. Returns `None` if the source is neither.
    """
    if isinstance(source, str):
        return _read_text(source.strip())
    if not is_mapping(source):
        return None
    if "proof_bundle" in source:
        bundle = source["proof_bundle"]
        if isinstance(bundle, str):
            return _read_text(bundle.strip())
        return _read_written(bundle) if is_mapping(bundle) else None
    reference = source.get("proof_ref")
    return _reference(reference) if isinstance(reference, str) and len(reference) <= _MAX_TEXT else None


def _read_text(text: str) -> Proof | None:
    if len(text) > _MAX_TEXT:
        return None
    if text.startswith("{"):
        return _read_bundle(text)
    if not _BASE64.fullmatch(text):
        return None
    data = _decoded(text)
    if not data.startswith(b"{"):
        return _reference(text)
    try:
        return _read_bundle(data.decode("utf-8"))
    except UnicodeDecodeError:
        return None


def _decoded(text: str) -> bytes:
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    # One character alone encodes no byte.
    whole = plain[:-1] if len(plain) % 4 == 1 else plain
    return binascii.a2b_base64(whole + "=" * (-len(whole) % 4))


def _reference(text: str) -> Proof:
    return Proof("proof_ref", json.dumps(text), None)


def _read_written(bundle: Mapping[str, Any]) -> Proof | None:
    try:
        return _read_bundle(json.dumps(dict(bundle), allow_nan=False, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return None


def _read_bundle(text: str) -> Proof | None:
    """Reads one strictly valid JSON object. The text becomes a part of the request body without a change."""
    try:
        value = parse_json(text.encode("utf-8"))
    except (ProtocolError, UnicodeEncodeError):
        return None
    if not is_object(value):
        return None
    agent_id = value.get("agent_id")
    return Proof("proof_bundle", text, agent_id if isinstance(agent_id, str) else None)
