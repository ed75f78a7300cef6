"""Which `Host` and `Origin` are ours: a page elsewhere must not reach the API through the user's browser."""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

#: Key of `scope` under which the authority of a request's target is found, where that is a whole address.
AUTHORITY: Final = "reconciler.authority"


def authority_of(target: bytes) -> bytes | None:
    """Return the authority of a request's target; None for the usual ones, which have none.

    >>> authority_of(b"http://a:1/x?y=http://b"), authority_of(b"http://a?x"), authority_of(b"/x?http://a/")
    (b'a:1', b'a', None)
    """
    if target[:1] in (b"/", b"*"):
        return None
    scheme, mark, rest = target.partition(b"://")
    return re.split(rb"[/?#]", rest if mark and b"?" not in scheme else target, maxsplit=1)[0]


def host_name(header: str) -> str | None:
    """Return the name in a `Host` header, lower case and without port or brackets; None = malformed.

    >>> host_name("LOCALHOST:8080"), host_name("[::1]:80"), host_name("a:b")
    ('localhost', '::1', None)
    """
    if header.startswith("["):
        name, bracket, port = header[1:].partition("]")
        if not bracket or (port and not (port.startswith(":") and _is_port(port[1:]))):
            return None
        return name.lower() if _address(name) else None
    name, colon, port = header.partition(":")
    if (colon and not _is_port(port)) or not name or any(c in name for c in " /\\@?#"):
        return None
    return name.lower().removesuffix(".") or None


def host_allowed(header: str, extra: Iterable[str], local: str | None) -> bool:
    """Say whether a request for this `Host` is meant for us.

    Loopback names and addresses are, with any port; so are the `extra` names of the manifest and the very
    address the client connected to (`local`): a page elsewhere can make a name of its own point here, but
    then the header bears that name.
    """
    name = host_name(header)
    if name is None:
        return False
    if name == "localhost" or name in {host_name(item) for item in extra}:
        return True
    address = _address(name)
    if address is None:
        return False
    return address.is_loopback or (local is not None and address == _address(local))


def origin_allowed(origin: str, host: str, allowed: Iterable[str]) -> bool:
    """Say whether a page of this `Origin` may call: our own (its authority is `Host`), or a configured one."""
    wanted = origin.lower().rstrip("/")
    if wanted in {item.lower().rstrip("/") for item in allowed}:
        return True
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return False
    return parts.scheme == "http" and parts.netloc == host.lower()


def is_loopback(address: str) -> bool:
    """Say whether only this machine reaches an address."""
    found = _address(address)
    return found is not None and found.is_loopback


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_port(text: str) -> bool:
    """An empty one is the usual port (RFC 3986, 3.2.3)."""
    return not text or (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < 65536)
