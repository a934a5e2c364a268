"""Errors of documents and values that violate the wire format."""


class ProtocolError(ValueError):
    """Reports why a document or a value is malformed. The codes are those of the service."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
