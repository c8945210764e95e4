"""Native loops of the service: where the lists of a JSON text begin and end, before anything is made of it."""

from __future__ import annotations

import numpy as np

from pintgn.compiled import kernel

FINE, BROKEN, MANY_LISTS, DEEP = 0, 1, 2, 3
DEEPEST = 100
"""Brackets within each other at most: an event in a list of an object needs four."""


@kernel
def outline(
    data: np.ndarray,  # (bytes,) uint8
    step: int,
    lists: np.ndarray,  # (lists, 4) int64: where it opens and closes, its elements, its first mark
    marks: np.ndarray,  # (marks, 2) int64: where a piece ends, and the values in it
) -> tuple[int, int, int]:
    """Find the outermost lists of a JSON text (those in no other list), and cut them into pieces of `step` elements.

    A value is counted for every comma, `[` and `{`: an upper bound of what a parser makes. Returns what was found
    (FINE, BROKEN, MANY_LISTS, DEEP), the number of lists, and the values outside of all lists. Elements are counted to
    the end even when there is no room for their marks. The text need not be JSON: who parses the pieces will see.
    """
    depth, inside = 0, 0  # of brackets; the depth of the outermost list, 0 outside
    found, marked, outside = 0, 0, 0
    values, elements, empty = 0, 0, True
    quoted, escaped = False, False
    for place in range(len(data)):
        byte = data[place]
        if quoted:
            if escaped:
                escaped = False
            elif byte == 92:  # \
                escaped = True
            elif byte == 34:
                quoted = False
            continue
        if byte == 32 or byte == 10 or byte == 13 or byte == 9:
            continue
        closes = byte == 93 or byte == 125  # ] }
        if inside and not (closes and depth == inside):
            empty = False
        if byte == 34:  # "
            quoted = True
        elif byte == 44:  # ,
            if not inside:
                outside += 1
                continue
            values += 1
            if depth == inside:
                elements += 1
                if elements % step == 0 and marked < len(marks):
                    marks[marked, 0], marks[marked, 1] = place, values
                    marked += 1
                    values = 0
        elif byte == 91 or byte == 123:  # [ {
            depth += 1
            if depth > DEEPEST:
                return DEEP, found, outside
            if inside:
                values += 1
            elif byte == 123:
                outside += 1
            else:
                if found == len(lists):
                    return MANY_LISTS, found, outside
                inside = depth
                values, elements, empty = 0, 0, True
                lists[found, 0], lists[found, 3] = place, marked
        elif closes:
            if inside and depth == inside:
                if byte != 93:
                    return BROKEN, found, outside
                if not empty:
                    elements += 1
                lists[found, 1], lists[found, 2] = place, elements
                if marked < len(marks):
                    marks[marked, 0], marks[marked, 1] = place, values
                    marked += 1
                found += 1
                inside = 0
            depth -= 1
            if depth < 0:
                return BROKEN, found, outside
    if depth or quoted:
        return BROKEN, found, outside
    return FINE, found, outside
