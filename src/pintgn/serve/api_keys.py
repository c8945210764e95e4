"""API keys: their names, scopes and rates in a file that a running service reads again when it changes.

Only hashes are kept. A key is random, not a password, so one round of SHA-256 hides it well, and a key is
looked up by it: whoever times the look-up learns about the hash of what was sent, which is of no use.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import math
import os
import re
import secrets
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pintgn.errors import BadFile, BadInput, suggest
from pintgn.facts import AtLeast, Maybe, check, check_format, read_json
from pintgn.files import PRIVATE, PRIVATE_FOLDER, make_private, try_lock, write_errors, write_file
from pintgn.serve.limits import NotAllowed, Stopped

if TYPE_CHECKING:
    from pintgn.serve.service import Service

log = logging.getLogger("pintgn.serve")
FORMAT = 1
FILE = "keys.json"
MADE = ".keys.made"
"""An empty file beside it from the first key on: keys that are gone are missed, also if never served."""
SHORTEST = 20
"""Characters of a key at least."""
SCOPES = ("read", "write", "admin")
"""Each may do what those before it may: ask; send events; look after the service."""
NEEDS = {"POST /events": "write", "POST /targets": "write", "POST /score": "read"}
"""What a request needs, where it is not what its method says: read for those that change nothing, admin for others."""
SHAPE = {
    "format": AtLeast(1),
    "checksum": Maybe(int),
    "keys": [{"name": str, "scope": {*SCOPES}, "sha256": str, "rate": (float, None), "made": str}],
}
REMEDY = "Put it back from a backup, or make a new key with --new-key."
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")
HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Key:
    """An API key: its name, scope and rate."""

    name: str
    scope: str
    sha256: str
    rate: float | None = None  # requests per second; any number when not given
    made: str = ""

    def __repr__(self) -> str:
        return f"Key({self.name}, {self.scope})"


class Keys:
    """The keys of a service, as the file has them now.

    Without any a service is open to whoever reaches it. Once it has had one it stays closed, whatever becomes of the
    file: `pintgn keys` adds the first key to a running service, and removing the last one lets nobody in. The store
    remembers that there were keys (`hold_to`), so that a service does not start without them either.
    """

    def __init__(self, path: Path, read: Callable[[Path], list[Key]]):
        self.path, self._read = path, read
        self._stamp: tuple[int, ...] | None = None  # which file was read; the first request reads it once more
        self._known: dict[str, Key] = {}
        self._due: dict[str, float] = {}  # when the requests of a key with a rate will have been paid for
        self.required = False
        self.on_required: Callable[[], None] = lambda: None
        self._take(read(path))

    @classmethod
    def of_store(cls, folder: Path) -> Keys:
        """The keys that `pintgn keys` keeps for a store."""
        return cls(folder / FILE, stored)

    @classmethod
    def of_file(cls, path: Path) -> Keys:
        """One key with all scopes, from a file that holds the key itself."""
        return cls(path, _itself)

    def __bool__(self) -> bool:
        return self.required

    def _take(self, keys: list[Key]) -> None:
        self._known = {key.sha256: key for key in keys}
        if keys and not self.required:
            self.required = True
            self.on_required()

    def _refresh(self, stamp: tuple[int, ...] | None) -> None:
        """Read the file again; an unreadable one changes nothing."""
        self._stamp = stamp
        try:
            self._take(self._read(self.path))
            log.info("%s has changed: %d keys", self.path, len(self._known))
        except BadFile as error:
            log.error("the keys stay as they were: %s", error)

    def find(self, headers: Mapping[str, str]) -> Key | None:
        """The API key of a request, as the file has it now; None where none was ever needed."""
        try:
            found = os.stat(self.path)
            stamp: tuple[int, ...] | None = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:
            stamp = None
        if stamp != self._stamp:
            self._refresh(stamp)
        if not self.required:
            return None
        digest = hashlib.sha256(_request_key(headers).encode("utf-8", "surrogateescape")).hexdigest()
        if digest not in self._known:
            said, how = "the API key is missing or wrong.", "Send `Authorization: Bearer KEY`."
            raise NotAllowed(401, "no_key", said, how, WWW_Authenticate="Bearer")
        return self._known[digest]

    def check(self, key: Key, request: str) -> None:
        """Refuse a request outside its key's scope or above its rate."""
        if SCOPES.index(key.scope) < SCOPES.index(scope := needed(request)):
            said = f"the API key may not do this, which needs the scope {scope}."
            raise NotAllowed(403, "forbidden", said, "Use a key with that scope.")
        if key.rate is not None:
            now, each = time.monotonic(), 1 / key.rate
            due = max(self._due.get(key.sha256, 0), now)
            early = due - now - max(0, 1 - each)  # as many at once as a second allows
            if early > 1e-9:
                said, wait = "the API key is used more often than its rate allows.", "Wait as long as Retry-After says."
                raise NotAllowed(429, "too_often", said, wait, Retry_After=str(math.ceil(early)))
            self._due[key.sha256] = due + each


def _request_key(headers: Mapping[str, str]) -> str:
    """The key in a request's headers: `Authorization: Bearer KEY` or `X-API-Key: KEY`."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" and value else headers.get("x-api-key", "")


def hold_to(keys: Keys, service: Service, without: bool = False) -> None:
    """Refuse to serve a store that has had API keys without any, unless that is wanted (`without`); from now on the
    store remembers that it has keys, also when the first one is made while the service runs."""
    store = service.store

    def remember(keyed: bool) -> None:
        if store.writes and store.keyed != keyed:
            store.set_keyed(keyed)

    def remember_soon() -> None:
        with contextlib.suppress(Stopped):  # the next start remembers it
            service.call(functools.partial(remember, True)).add_done_callback(_say)

    keys.on_required = remember_soon
    if keys:
        if without:
            raise BadInput(f"--without-keys, but there are keys in {keys.path}. Remove them with `pintgn keys remove`.")
        service.call(functools.partial(remember, True)).result()
    elif service.call(lambda: store.keyed).result() or _had_keys(keys.path):
        if not without:
            raise BadInput(
                f"{store.name} has had API keys, and {keys.path} has none. Put that file back, make a key with "
                "--new-key, or let in whoever reaches the service from now on with --without-keys."
            )
        service.call(functools.partial(remember, False)).result()
        _forget(keys.path)


def _say(done: Future) -> None:
    if (error := done.exception()) is not None:
        log.error("%s", error)


def needed(request: str) -> str:
    """The scope that a request needs.

    >>> needed("GET /status"), needed("POST /score"), needed("POST /events"), needed("POST /snapshot")
    ('read', 'read', 'write', 'admin')
    """
    method = request.partition(" ")[0]
    return NEEDS.get(request) or ("read" if method in ("GET", "HEAD", "OPTIONS") else "admin")


# -- the file ----------------------------------------------------------------------------------------------------------


def stored(path: Path) -> list[Key]:
    """The keys in a file; none when there is no file."""
    try:
        found = read_json(path, {"format": AtLeast(1)}, REMEDY)
    except FileNotFoundError:
        return []
    check_format(found["format"], FORMAT, str(path), REMEDY)
    check(found, SHAPE, str(path), REMEDY)
    keys = [Key(**{name: row[name] for name in SHAPE["keys"][0]}) for row in found["keys"]]  # type: ignore[index]
    for key in keys:
        if not HASH.fullmatch(key.sha256) or not (key.rate is None or key.rate > 0):
            raise BadFile(f"{path} is damaged: key {key.name[:64]!r} has no hash, or no rate. {REMEDY}")
    if found.get("checksum", checksum := _checksum(found["keys"])) != checksum:
        raise BadFile(f"{path} is damaged: it is not what was written. {REMEDY}")
    return keys


def _checksum(rows: list[dict[str, object]]) -> int:
    return zlib.crc32(json.dumps(rows, sort_keys=True).encode())


def _itself(path: Path) -> list[Key]:
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"cannot read the key in {path}: {error}.") from error
    if len(text) < SHORTEST:
        raise BadFile(f"the key in {path} has {len(text)} characters; use at least {SHORTEST}, random ones.")
    return [Key(path.name, "admin", hashlib.sha256(text.encode()).hexdigest())]


@contextlib.contextmanager
def _changing(folder: Path) -> Iterator[None]:
    """Lock the file of keys against other processes; a service may be running."""
    with write_errors(folder / FILE):
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        lock = folder / f".{FILE}.lock"
        with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT, PRIVATE), "r+b") as file:
            make_private(lock)  # also one of before
            if not try_lock(file):
                raise BadInput(f"another process is changing the keys in {folder}. Try again.")
            yield


def _had_keys(path: Path) -> bool:
    """Whether a file of keys ever existed, whatever has become of it."""
    return path.exists() or path.with_name(MADE).exists()


def _forget(path: Path) -> None:
    with write_errors(path):
        for one in (path, path.with_name(MADE)):
            one.unlink(missing_ok=True)


def _write(folder: Path, keys: list[Key]) -> None:
    rows = [asdict(key) for key in keys]
    facts = {"format": FORMAT, "checksum": _checksum(rows), "keys": rows}
    (folder / MADE).touch(PRIVATE)
    write_file(folder / FILE, json.dumps(facts, indent=1) + "\n", mode=PRIVATE)


def add_key(folder: Path, name: str, scope: str = "admin", rate: float | None = None, *, renew: bool = False) -> str:
    """Make a key, keep its hash in the store, and return it: it is never written anywhere.

    Args:
        renew: the key takes the place of one of this name, or of what cannot be read.
    """
    if not NAME.fullmatch(name):
        raise BadInput(f"{name[:100]!r} is no name of a key: letters, digits, '-', '_' and '.', 64 at most.")
    if scope not in SCOPES:
        raise BadInput(f"there is no scope {scope[:100]!r}.{suggest(scope, SCOPES)}")
    if rate is not None and not 0 < rate < math.inf:
        raise BadInput(f"a rate of {rate} requests per second; it is more than 0.")
    text = f"pintgn_{secrets.token_urlsafe(32)}"
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with _changing(folder):
        try:
            keys = stored(folder / FILE)
        except BadFile:
            if not renew:
                raise
            keys = []
        if not renew and any(key.name == name for key in keys):
            raise BadInput(f"there is a key {name!r} already. Choose another name, or remove it first.")
        kept = [key for key in keys if key.name != name]
        _write(folder, [*kept, Key(name, scope, hashlib.sha256(text.encode()).hexdigest(), rate, made)])
    return text


def remove_key(folder: Path, name: str) -> int:
    """Remove a key: a running service refuses it from the next request on. Returns how many are left."""
    with _changing(folder):
        keys = stored(folder / FILE)
        kept = [key for key in keys if key.name != name]
        if len(kept) == len(keys):
            raise BadInput(f"there is no key {name[:64]!r}.{suggest(name, [key.name for key in keys])}")
        _write(folder, kept)
    return len(kept)
