"""Constructions of the gallery, as data for `items`."""

from __future__ import annotations

from math import inf

from pintgn.theory.items import Claim, Graph, Item


def verdicts(can: str = "", cannot: str = "") -> dict[str, bool]:
    """Expected verdicts by class of models."""
    return dict.fromkeys(can.split(), True) | dict.fromkeys(cannot.split(), False)


def row(names: str, y: float, x: float = 0) -> dict[str, tuple[float, float]]:
    """Coordinates of nodes in a row."""
    return {name: (x + k, y) for k, name in enumerate(names.split())}


MEMORY = Item(
    "memory",
    "Memory sees further than one layer",
    "Prop. 3",
    "At t=3, u and v each have one event, at time 2. One layer of message passing without memory sees just that, so "
    "it gives both the same embedding. But b had met c before it met v, and b's memory recorded it: the state of v "
    "was updated with a partner that had a past, the state of u with one that had none. A second layer would see "
    "the same without memory. This is the role of memory: it provides what deeper layers would have fetched, and "
    "with as many additional layers as the temporal diameter (here 2) it adds nothing.",
    (
        Graph(
            (("b", "c", 1), ("v", "b", 2), ("u", "a", 2)),
            row("u a", y=0) | row("v b c", y=1),
        ),
    ),
    (
        Claim("u", "v", 3, verdicts(can="mp-tgn+memory", cannot="mp-tgn tgat pint"), depth=1),
        Claim("u", "v", 3, verdicts(can="mp-tgn mp-tgn+memory pint"), depth=2),
    ),
    trees=(("u", 2, 3), ("v", 2, 3)),
)

ATTENTION = Item(
    "attention",
    "Attention cannot count",
    "Prop. 4",
    "u has met z and w, v has met only w, all at time 1, so their trees differ. But z and w look exactly alike "
    "(the graph has a mirror image around u), and an attention layer takes a weighted average of its neighbors: "
    "the average of two equal vectors is the same as one of them alone, whatever the weights. TGAT therefore "
    "gives u and v the same embedding at every depth. TGN-Att's memory does not help, because the mean over the "
    "messages of one timestamp loses the number of them too. A sum, as in PINT and in injective MP-TGNs, keeps "
    "it.",
    (
        Graph(
            (("a", "z", 1), ("z", "u", 1), ("u", "w", 1), ("w", "v", 1), ("z", "b", 2), ("w", "c", 2)),
            row("a z u w v", y=0) | {"b": (1, 1), "c": (3, 1)},
            {"u": 0, "v": 0, "a": 0, "z": 1, "w": 1, "b": 2, "c": 2},
        ),
    ),
    (
        Claim("u", "v", 3, verdicts(can="mp-tgn pint", cannot="tgat tgn-att"), depth=2),
        Claim("u", "v", 3, verdicts(can="mp-tgn pint", cannot="tgat tgn-att"), depth=5),
    ),
    trees=(("u", 2, 3), ("v", 2, 3)),
)

WALKS_WIN = Item(
    "walks-win",
    "Walks see who is who, message passing does not",
    "Prop. 5, first half",
    "Will u meet v again at time 3, or will z meet v for the first time? The graph is its own mirror image (u and "
    "z, v and w change places), so u and z have isomorphic trees and every MP-TGN gives both events the same "
    "embedding: it knows that each has met someone at time 1, not that u has met this very v. CAW follows walks "
    "from both ends and notes which nodes occur in both; PINT's positions say the same in one vector: u is one "
    "step from v, z is two.",
    (Graph((("u", "v", 1), ("w", "z", 1), ("v", "w", 2)), {"u": (0, 0), "v": (1.3, 0), "w": (1.3, 1), "z": (0, 1)}),),
    (
        Claim(
            ("u", "v"),
            ("z", "v"),
            3,
            verdicts(can="caw pint any", cannot="mp-tgn mp-tgn+memory tgat tgn-att temporal-wl"),
        ),
    ),
    trees=(("u", 2, 3), ("z", 2, 3)),
)

MESSAGES_WIN = Item(
    "messages-win",
    "Message passing sees forward in time, walks do not",
    "Prop. 5, second half",
    "Walks run backward in time, so from u and from u' they end after one step: what happened to v and v' later "
    "cannot be reached. CAW sees two equal events. Message passing goes along any past event in any order, and with "
    "three layers it finds that a' went on to meet b' while a met nobody else. This is one possible choice: the "
    "text fixes only the walks, and that the trees differ. (The main text asks at t3 with depth 3, the appendix at "
    "t4 with depth 4; three layers are enough.)",
    (
        Graph(
            (("u", "v", 1), ("u'", "v'", 1), ("z", "w", 1), ("v", "a", 2), ("v'", "a'", 2), ("a'", "b'", 3)),
            row("w z", y=0.5) | row("u v a", y=0, x=2) | row("u' v' a' b'", y=1, x=2),
        ),
    ),
    (
        Claim(("u", "z"), ("u'", "z"), 4, verdicts(can="mp-tgn pint temporal-wl", cannot="caw"), depth=3),
        Claim(("u", "z"), ("u'", "z"), 4, verdicts(cannot="mp-tgn caw pint"), depth=2, steps=3),
    ),
    trees=(("u", 3, 4), ("u'", 3, 4)),
)

_TRIANGLES = (("u1", "v1", 1), ("v1", "w1", 2), ("w1", "u1", 3), ("u2", "v2", 1), ("v2", "w2", 2), ("w2", "u2", 3))
_HEXAGON = (("u1", "v1", 1), ("v1", "w1", 2), ("w1", "u2", 3), ("u2", "v2", 1), ("v2", "w2", 2), ("w2", "u1", 3))
_ROLES = {name + i: kind for i in "12" for kind, name in enumerate("uvw")}

GIRTH_MESSAGES = Item(
    "girth-messages",
    "Two triangles or one hexagon: message passing cannot say",
    "Prop. 7, MP-TGNs",
    "In both graphs every u met a v at time 1, every v a w at time 2, every w a u at time 3. Going from node to "
    "node, one meets the same kinds of nodes at the same times forever, so all trees are pairwise isomorphic and "
    "the temporal WL test is inconclusive: no MP-TGN can tell the girth, the diameter or the number of cycles. "
    "Adapted from Garg et al.",
    (
        Graph(
            _TRIANGLES,
            {"u1": (0, 1), "v1": (0.6, 0), "w1": (1.2, 1), "u2": (2, 1), "v2": (2.6, 0), "w2": (3.2, 1)},
            _ROLES,
            "two triangles",
        ),
        Graph(
            _HEXAGON,
            {"u1": (0, 0.6), "v1": (0.8, 0), "w1": (1.8, 0), "u2": (2.6, 0.6), "v2": (1.8, 1.2), "w2": (0.8, 1.2)},
            _ROLES,
            "hexagon",
        ),
    ),
    facts=({"girth": 3, "diameter": inf, "cycles": 2}, {"girth": 6, "diameter": 3, "cycles": 1}),
)

_COMMON = (("u", "v", 1), ("w", "z", 1), ("a", "b", 1), ("v", "w", 2))
_SQUARE = {"u": (0.0, 0.0), "v": (1.0, 0.0), "w": (1.0, 1.0), "z": (0.0, 1.0), "a": (2.1, 1.0), "b": (2.1, 0.0)}

GIRTH_WALKS = Item(
    "girth-walks",
    "A square or none: walks cannot say",
    "Prop. 7, CAW",
    "The graphs differ in their last event only: it closes a square, or it does not. Seen from u, z and a, walks "
    "back in time end after one step, so CAW gives (u, z) at time 3 the embedding it gives (a, z); all earlier "
    "events are the same. Any readout of the events' embeddings is then the same for both graphs. This is one "
    "possible choice: the text fixes only the idea, and that diameter, girth and cycles differ.",
    (
        Graph((*_COMMON, ("u", "z", 3)), _SQUARE, caption="with (u, z, 3)"),
        Graph(
            (*_COMMON, ("a", "z", 3)),
            {"u": (0.0, 0.0), "v": (1.0, 0.0), "w": (1.0, 1.0), "z": (0.0, 1.0), "a": (0.0, 2.0), "b": (1.0, 2.0)},
            caption="with (a, z, 3)",
        ),
    ),
    facts=({"girth": 4, "diameter": inf, "cycles": 1}, {"girth": inf, "diameter": 5, "cycles": 0}),
)

SYMMETRY = Item(
    "symmetry",
    "What no model can tell: a symmetry",
    "Prop. 10",
    "u and z met w at the same time and nothing else happened to them. Swapping u and z changes nothing in the "
    "graph, so a model that does not look at names must treat (u, v) and (z, v) alike: PINT, CAW, MP-TGNs and every "
    "other one. This is not a weakness of PINT but of the question. This is one possible choice: the text only asks "
    "for this symmetry.",
    (
        Graph(
            (("w", "u", 1), ("w", "z", 1), ("v", "w", 2)), {"u": (0, 0), "w": (1.1, 0.5), "z": (0, 1), "v": (2.3, 0.5)}
        ),
    ),
    (
        Claim(
            ("u", "v"),
            ("z", "v"),
            3,
            verdicts(cannot="mp-tgn mp-tgn+memory tgat tgn-att caw pint pint+memory temporal-wl any"),
        ),
    ),
)

_HALF = (("u", "x", 6), ("u", "y", 6), ("u", "a", 5), ("u", "b", 5), ("b", "m", 3), ("x", "k", 3))
_PRIMED = tuple((f"{a}'", f"{b}'", t) for a, b, t in _HALF)
_LEFT = {"u": (1.5, 0.0)} | row("x a b y", y=1.1) | {"k": (0.0, 2.1), "m": (2.0, 2.1)}
_RIGHT = {"u'": (6.0, 0.0)} | row("x' b' a' y'", y=1.1, x=4.5) | row("k' m'", y=2.1, x=4.5)

EQUAL_DEPTH = Item(
    "equal-depth",
    "Two layers are not two steps: where CAW sees more than PINT of equal depth",
    "Prop. 9, our finding",
    "Prop. 9 says that PINT tells apart whatever CAW does. It does, with enough layers, but as many layers as CAW "
    "has steps, which its proof suggests, are not enough. At t=7, compare (u, v) with (u', v). The primed half is "
    "the same but for a crossing at time 4: x meets a and y meets b, while x' meets b' and y' meets a'. For every "
    "node, CAW counts how many maximal walks have it at each position. A count at position 1 grows when walks go on "
    "from there in several ways, so it carries information about what lies behind the node, and CAW also reads it "
    "where the node is the last of a walk: x counts 2 (on to a and to k), y counts 1. PINT's positions count "
    "arrivals, and x and y are both reached in one way by one step and in one way by two; as leaves of a tree of "
    "two levels they look alike, whatever d is. A third layer looks below the leaves and tells them apart; with "
    "memory, two are enough. Random logs practically never hit this.",
    (
        Graph(
            (*_HALF, ("x", "a", 4), ("y", "b", 4), *_PRIMED, ("x'", "b'", 4), ("y'", "a'", 4), ("v", "q", 1)),
            {**_LEFT, **_RIGHT, "v": (3.75, -0.4), "q": (3.75, 0.6)},
        ),
    ),
    (
        Claim(("u", "v"), ("u'", "v"), 7, verdicts(can="caw pint+memory", cannot="pint"), depth=2, d=3, steps=2),
        Claim(("u", "v"), ("u'", "v"), 7, verdicts(can="caw", cannot="pint"), depth=2, d=10, steps=2),
        Claim(("u", "v"), ("u'", "v"), 7, verdicts(can="caw pint"), depth=3, d=3, steps=2),
    ),
)

POSITIONS = Item(
    "positions",
    "Positions are how often a node occurs at each level of a monotone tree",
    "Lemma 2",
    "When v meets u at time 3, all that u could reach going back in time becomes reachable from v in one more "
    "step: the monotone tree of u is hung below v. Counting instead of drawing, the position of every node "
    "relative to v gains its position relative to u, shifted by one level (Eqs. 10-11). Here i occurs once at "
    "level 1 of u's tree (they met at time 1) and once at level 2 (through j), so after (u, v, 3) its position "
    "relative to v is [0, 0, 1, 1].",
    (
        Graph(
            (("i", "u", 1), ("i", "j", 1), ("j", "u", 2), ("u", "v", 3)),
            {"i": (0, 0.5), "j": (1, 0), "u": (2, 0.5), "v": (3, 0.5)},
        ),
    ),
    trees=(("u", None, 3), ("v", None, 4)),
)

ITEMS = (MEMORY, ATTENTION, WALKS_WIN, MESSAGES_WIN, GIRTH_MESSAGES, GIRTH_WALKS, POSITIONS, EQUAL_DEPTH, SYMMETRY)
