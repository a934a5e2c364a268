"""Hashes that bind a proof to one operation (wire format §4)."""

from hashlib import sha256

from .canonical import well_formed

_OPERATION_TAG = b"ratify/operation-context/v1"


def request_hash(
    required_scope: str, action: str, resource_id: str, requested_path: str, payload_digest: bytes
) -> bytes:
    """Returns the SHA-256 hash of an operation's fields, each preceded by its length.

    Without a payload, `payload_digest` is empty. Raises `ProtocolError` `invalid_utf8` for a lone surrogate.
    """
    texts = [well_formed(text).encode() for text in (required_scope, action, resource_id, requested_path)]
    digest = sha256(_OPERATION_TAG)
    for field in (*texts, payload_digest):
        digest.update(len(field).to_bytes(8, "big") + field)
    return digest.digest()
