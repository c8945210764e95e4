"""What the events of a log are called, where its column names tell: a buyer bought, a caller called."""

from __future__ import annotations

import re
from typing import NamedTuple

from pintgn.events.schema import Schema


class Verb(NamedTuple):
    """What the source of an event did to its destination, in the past tense; and the same from the other end."""

    done: str
    undergone: str
    had_done: str
    had_undergone: str

    @classmethod
    def of(cls, done: str, inverse: str = "") -> Verb:
        """
        >>> Verb.of("bought")
        Verb(done='bought', undergone='was bought by', had_done='had bought', had_undergone='had been bought by')
        >>> Verb.of("lent to", "borrowed from").had_undergone
        'had borrowed from'
        """
        if inverse:
            return cls(done, inverse, f"had {done}", f"had {inverse}")
        return cls(done, f"was {done} by", f"had {done}", f"had been {done} by")

    def said(self, from_source: bool, earlier: bool = False) -> str:
        """From the source's end or the destination's; `earlier` than something that was told before."""
        return self[2 * earlier + (not from_source)]

    @property
    def reversed(self) -> Verb:
        return Verb(self.undergone, self.done, self.had_undergone, self.had_done)


MET = Verb("met", "met", "had met", "had met")
"""What is said where column names do not tell."""
BUYERS = ("buyer", "customer", "client", "shopper", "purchaser")
ACTORS = {
    "caller": Verb.of("called"),
    "payer": Verb.of("paid"),
    "lender": Verb.of("lent to", "borrowed from"),
    "follower": Verb.of("followed"),
    "rater": Verb.of("rated"),
    "reviewer": Verb.of("reviewed"),
    "trustor": Verb.of("trusted"),
    "truster": Verb.of("trusted"),
    "editor": Verb.of("edited"),
    "viewer": Verb.of("watched"),
    "watcher": Verb.of("watched"),
    "reader": Verb.of("read"),
    "listener": Verb.of("listened to", "was heard by"),
    "visitor": Verb.of("visited"),
    "voter": Verb.of("voted for", "got the vote of"),
    "subscriber": Verb.of("subscribed to"),
    "citing": Verb.of("cited"),
}
"""By the one who acts, whoever the other is."""
ACTED_ON = {
    "callee": ACTORS["caller"],
    "payee": ACTORS["payer"],
    "borrower": ACTORS["lender"],
    "followee": ACTORS["follower"],
    "ratee": ACTORS["rater"],
    "trustee": ACTORS["trustor"],
    "cited": ACTORS["citing"],
}
PAIRS = [(one, other, Verb.of("bought")) for one in BUYERS for other in ("item", "product", "sku", "article", "asin")]
PAIRS += [
    (one, other, Verb.of("bought from", "sold to"))
    for one in BUYERS
    for other in ("seller", "merchant", "vendor", "shop", "store", "supplier", "retailer")
]
"""By both, where one alone does not tell."""
CARRIERS = {"mail": "mailed", "email": "mailed", "message": "messaged", "sms": "messaged"}


def verb_of(schema: Schema) -> Verb:
    """The verb of a log's events, by the names of its two columns.

    >>> verb_of(Schema(src="buyer_id", dst="itemId")).done, verb_of(Schema(src="callee", dst="caller")).done
    ('bought', 'was called by')
    >>> verb_of(Schema(src="from_email", dst="to_email")).done, verb_of(Schema(src="user", dst="item")).done
    ('mailed', 'met')
    """
    if schema.op is not None:  # where things end, too, contacts are told as beginnings and ends
        return MET
    one, other = _words(schema.src), _words(schema.dst)
    for src, dst, turned in ((one, other, False), (other, one, True)):
        found = next((verb for a, b, verb in PAIRS if a in src and b in dst), None)
        found = found or next((verb for word, verb in ACTORS.items() if word in src), None)
        found = found or next((verb for word, verb in ACTED_ON.items() if word in dst), None)
        if found is not None:
            return found.reversed if turned else found
    carried = next((done for word, done in CARRIERS.items() if word in one | other), None)
    return MET if carried is None else Verb.of(carried)


def _words(column: str) -> set[str]:
    """
    >>> sorted(_words("BuyerID")), sorted(_words("from_email"))
    (['buyer', 'id'], ['email', 'from'])
    """
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", column)}
