"""Who may ask: one API key, kept as a hash; and what may be reached without one."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from pintgn.errors import BadFile, BadInput
from pintgn.files import write_file

FILE = "key.hash"
SHORTEST = 20
"""Characters of a key at least: a key is random, not a password, so one round of SHA-256 hides it well."""
HASH = re.compile(rb"[0-9a-f]{64}")
OPEN = ("/", "/docs", "/health")
FILES = ("/static/", "/swagger/")
"""Reached without a key: the pages, and their own files under these."""


class Key:
    """An API key of which only the hash is known."""

    def __init__(self, digest: str):
        self._digest = digest

    def __repr__(self) -> str:
        return "Key(…)"

    def __call__(self, given: str | None) -> bool:
        """Whether this is the key; takes as long for a near miss as for nonsense."""
        made = hashlib.sha256((given or "").encode("utf-8", "surrogateescape")).hexdigest()
        return hmac.compare_digest(made, self._digest)

    @classmethod
    def of(cls, text: str) -> Key:
        """From the key itself."""
        if len(text) < SHORTEST:
            raise BadInput(f"the key has {len(text)} characters; use at least {SHORTEST}, random ones.")
        return cls(hashlib.sha256(text.encode()).hexdigest())

    @classmethod
    def read(cls, path: Path) -> Key:
        """From a file that holds the key itself."""
        try:
            return cls.of(path.read_text().strip())
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"cannot read the key in {path}: {error}.") from error

    @classmethod
    def stored(cls, folder: Path) -> Key | None:
        """The key that `new` made for this store, if there is one."""
        try:
            found = (folder / FILE).read_bytes().strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadFile(f"cannot read {folder / FILE}: {error.strerror}.") from error
        if not HASH.fullmatch(found):
            raise BadFile(f"{folder / FILE} is damaged: it is no hash of a key. Make a new key with --new-key.")
        return cls(found.decode())

    @classmethod
    def new(cls, folder: Path) -> tuple[Key, str]:
        """Make a key, keep its hash in the store, and return both; the key itself is never written anywhere."""
        text = f"pintgn_{secrets.token_urlsafe(32)}"
        made = cls.of(text)
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / FILE, made._digest + "\n", mode=0o600)
        return made, text


def given_key(headers: Mapping[str, str]) -> str | None:
    """The key in a request's headers: `Authorization: Bearer KEY` or `X-API-Key: KEY`."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value:
        return value.strip()
    return headers.get("x-api-key")


def foreign(headers: Mapping[str, str], by_host: bool = True) -> bool:
    """Whether a browser sends this on behalf of a page that is not the service's own.

    Browsers say it themselves (`Sec-Fetch-Site`); older ones only name the page (`Origin`), which is compared with the
    name that the service was called by, unless a proxy may have changed that.

    >>> foreign({"sec-fetch-site": "cross-site"}), foreign({"sec-fetch-site": "same-origin"}), foreign({})
    (True, False, False)
    >>> foreign({"origin": "http://evil.example", "host": "localhost:8000"}), foreign({"origin": "null"})
    (True, True)
    """
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return True
    page = headers.get("origin", "").lower()
    return by_host and bool(page) and page.partition("://")[2] != headers.get("host", "?").lower()


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_local("127.0.0.1"), is_local("localhost"), is_local("::1"), is_local("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str:
    """The name in a Host header, without the port.

    >>> host_name("localhost:8000"), host_name("[::1]:8000"), host_name("example.org")
    ('localhost', '::1', 'example.org')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
