"""Where a request comes from: the key it brings, the page that sends it, the name it calls; what needs no key."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

OPEN = ("/", "/docs", "/health")
FILES = ("/static/", "/swagger/")
"""Reached without a key: the pages, and their own files under these."""


def given_key(headers: Mapping[str, str]) -> str | None:
    """The key in a request's headers: `Authorization: Bearer KEY` or `X-API-Key: KEY`."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value:
        return value.strip()
    return headers.get("x-api-key")


def foreign(headers: Mapping[str, str], by_host: bool = True, scheme: str = "http") -> bool:
    """Whether a browser sends this on behalf of a page that is not the service's own.

    Browsers say it themselves (`Sec-Fetch-Site`); older ones only name the page (`Origin`), which is compared with the
    scheme and the name that the service was called by, unless a proxy may have changed that.

    >>> foreign({"sec-fetch-site": "cross-site"}), foreign({"sec-fetch-site": "same-origin"}), foreign({})
    (True, False, False)
    >>> foreign({"origin": "http://evil.example", "host": "localhost:8000"}), foreign({"origin": "null"})
    (True, True)
    >>> foreign({"origin": "https://localhost", "host": "localhost"})
    True
    """
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return True
    page = headers.get("origin", "").lower()
    return by_host and bool(page) and page != f"{scheme}://{headers.get('host', '?').lower()}"


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
