"""The API keys of one manifest, ready to be looked for in a request."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator
from typing import Final

from reconciler.manifest.applied import ApiKey

#: Bytes of a key, and keys of one request, that are looked at: nobody needs more, and hashing takes time.
LONGEST: Final = 8192
MOST: Final = 4


class KeyRing:
    """The keys by a digest that is itself keyed with a secret of this process.

    A look-up takes as long for one key as for thousands, and how long it takes tells nothing about a key: nobody
    outside can know, or choose, the digest of what they send.
    """

    def __init__(self, keys: Iterable[ApiKey]) -> None:
        self._secret = secrets.token_bytes(32)
        self._keys = {self._digest(key.key.encode()): key for key in keys}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, sent: Iterable[bytes]) -> ApiKey | None:
        """Return the key of the manifest that is among those that were sent, or None."""
        for count, text in enumerate(sent):
            if count == MOST:
                break
            if len(text) > LONGEST:
                continue
            key = self._keys.get(self._digest(text))
            if key is not None and hmac.compare_digest(key.key.encode(), text):
                return key
        return None

    def _digest(self, text: bytes) -> bytes:
        return hashlib.blake2b(text, digest_size=32, key=self._secret).digest()


def sent_keys(authorization: Iterable[bytes], api_key: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the keys in the headers `Authorization` (a bearer token, or a basic password) and `x-api-key`."""
    for value in authorization:
        scheme, _, token = value.strip().partition(b" ")
        token = token.strip()
        match scheme.lower():
            case b"bearer" if token:
                yield token
            case b"basic" if (password := _password(token)) is not None:
                yield password
    for value in api_key:
        yield value.strip()


def _password(token: bytes) -> bytes | None:
    try:
        _, colon, password = base64.b64decode(token, validate=True).partition(b":")
    except binascii.Error:
        return None
    return password if colon else None
