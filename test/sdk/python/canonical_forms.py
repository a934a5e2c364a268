"""Prints the canonical form of each document in a file, or null for a document that is refused.

Each line of the file, and each line that is printed, is one string in JSON.
"""

import json
import sys
from pathlib import Path

from deputize.protocol.canonical import canonical_bytes
from deputize.protocol.errors import ProtocolError
from deputize.protocol.strict_json import parse_body


def canonical_form(document: str) -> str | None:
    try:
        return canonical_bytes(parse_body(document.encode())).decode()
    except ProtocolError:
        return None


with Path(sys.argv[1]).open(encoding="utf-8") as lines:
    for line in lines:
        print(json.dumps(canonical_form(json.loads(line))))
