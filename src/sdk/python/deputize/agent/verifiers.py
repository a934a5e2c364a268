"""The verifier of each application, which only the agent's settings name."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import httpx2

from ..operation import Verifier, is_name, is_verifier
from ..protocol.resource_path import decode_fully
from ..settings import demand
from .errors import WrongVerifier


@dataclass(frozen=True, slots=True)
class AgentVerifier(Verifier):
    """A verifier in an agent's settings.

    `connection_id`: the verifying connection, if several connections of the workspace have this name.
    """

    connection_id: str | None = None


# The verifiers of an agent, by the address of the application: an origin, an origin with a path, or
# `mcp:<server>` for an MCP server. `own` is the connection of the API key.
Verifiers = Mapping[str, Verifier | Literal["own"]]

_SERVER = re.compile(r"mcp:[A-Za-z0-9][\w.-]*", re.ASCII)


def read_verifier(verifier: object, name: str = "verifiers") -> AgentVerifier:
    """Returns a verifier in one form. Raises TypeError if it is none.

    `name`: the setting or option that contains it.
    """
    connection_id = verifier.connection_id if isinstance(verifier, AgentVerifier) else None
    if not is_verifier(verifier) or not (connection_id is None or is_name(connection_id)):
        raise TypeError(f"{name}: a verifier must be a Verifier with texts that are not empty")
    return AgentVerifier(verifier.verifier_id, verifier.workspace_id, connection_id)


def read_verifiers(verifiers: Verifiers) -> Callable[[httpx2.URL], AgentVerifier | Literal["own"]]:
    """Returns a function that finds the verifier of a URL by the settings alone, never by an answer.

    The longest matching path wins. Raises TypeError for settings that are no addresses or verifiers. The
    function raises `WrongVerifier` for an address without a verifier, and for a path that some servers read
    as the path of another verifier.
    """
    demand(hasattr(verifiers, "items"), "verifiers: must be a dict with the verifier of each address")
    places = [_place_of(address, verifier) for address, verifier in verifiers.items()]
    places.sort(key=lambda place: len(place[1]), reverse=True)

    def find(url: httpx2.URL) -> AgentVerifier | Literal["own"]:
        path = path_of(url)
        near = [place for place in places if place[0] == _origin_of(url)]
        found = next((place for place in near if _is_below(path, place[1])), None)
        if found is None:
            raise WrongVerifier("unknown_verifier", "The settings name no verifier for this address.")
        read, folder = _loosely_read(path), _loosely_read(found[1])
        for _, other, verifier in near:
            is_other = _is_below(read, _loosely_read(other)) and len(_loosely_read(other)) >= len(folder)
            if is_other and verifier != found[2]:
                sentence = "Servers can read this path as another verifier's."
                raise WrongVerifier("ambiguous_address", sentence)
        return found[2]

    return find


def check_expected(expected: AgentVerifier | None, found: AgentVerifier) -> None:
    """Raises `WrongVerifier` if a call expects another verifier than the settings name."""
    if expected is None:
        return
    if expected.connection_id is None:
        found = replace(found, connection_id=None)
    if expected != found:
        raise WrongVerifier("other_verifier", "The settings name another verifier for this address.")


def read_url(address: str) -> httpx2.URL:
    """Returns the URL of an HTTP address. Raises TypeError for anything else, and for passwords in it."""
    try:
        url = httpx2.URL(address)
    except (httpx2.InvalidURL, TypeError):
        raise TypeError("url: must be an absolute URL") from None
    is_http = url.scheme in ("http", "https") and url.host != ""
    demand(is_http and url.userinfo == b"", "url: must start with https or http, and contain no password")
    return url


def read_place(address: str) -> httpx2.URL:
    """Returns the URL of an HTTP address or of `mcp:<server>`. Raises TypeError for anything else."""
    is_server = isinstance(address, str) and _SERVER.fullmatch(address) is not None  # pyright: ignore[reportUnnecessaryIsInstance]
    return httpx2.URL(address) if is_server else read_url(address)


def path_of(url: httpx2.URL) -> str:
    """Returns the path of a URL as it is sent, without the query."""
    return url.raw_path.split(b"?", 1)[0].decode("ascii")


_Place = tuple[tuple[str, str, int | None], str, AgentVerifier | Literal["own"]]


def _place_of(address: str, verifier: object) -> _Place:
    url = read_place(address)
    demand(
        url.query == b"" and url.fragment == "", "verifiers: an address must have no query and no fragment"
    )
    found: AgentVerifier | Literal["own"] = "own" if verifier == "own" else read_verifier(verifier)
    return _origin_of(url), path_of(url).rstrip("/"), found


def _origin_of(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _is_below(path: str, folder: str) -> bool:
    """Compares whole segments: `/a/b` is below `/a`, and `/ab` is not."""
    return path == folder or path.startswith(f"{folder}/")


def _loosely_read(path: str) -> str:
    """Returns a path as a tolerant server can read it: decoded, in one case, without parameters or `//`."""
    text = decode_fully(path).encode("latin-1", "replace").decode("utf-8", "replace")
    segments = re.split(r"[/\\]", unicodedata.normalize("NFKC", text).upper().lower())
    names = [re.split("[;?#]", segment, maxsplit=1)[0] for segment in segments]
    return "".join(f"/{name}" for name in names if name)
