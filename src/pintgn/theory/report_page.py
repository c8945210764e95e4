"""A report as text and as a drawing."""

from __future__ import annotations

from pintgn.theory import draw
from pintgn.theory.bulk import CLASSES
from pintgn.theory.data_report import DataReport, Share
from pintgn.theory.history import TIMES

CAN, CANNOT, UNKNOWN = "#3b7dbd", "#e8a33d", "#c9c9c9"


def text(report: DataReport) -> str:
    """The report as a table for people."""
    lines = [
        f"As of t={report.at_words}: {report.events:,} events, {report.active_nodes:,} active nodes, longest walk back "
        f"in time {report.temporal_diameter:,} steps.",
        "",
        f"Of {report.settings['pairs']} links that came true later, each against a wrong destination, the share that a",
        f"class of models can tell apart ({report.settings['depth']} layers, d={report.settings['d']}, walks of "
        f"{report.settings['steps']} steps), by how finely it sees time:",
        "",
        "  " + " " * 16 + "".join(f"{times:>12}" for times in TIMES),
    ]
    for model in CLASSES:
        cells = "".join(f"{_percent(report.views[times].links[model]):>12}" for times in TIMES)
        lines.append(f"  {model:<16}{cells}")
    lines += ["", "The same for pairs of nodes:", ""]
    for model in report.views["exact"].nodes:
        cells = "".join(f"{_percent(report.views[times].nodes[model]):>12}" for times in TIMES)
        lines.append(f"  {model:<16}{cells}")
    lines += ["", "Colours of the temporal WL test after each round, and the depth that the links need:", ""]
    for times, view in report.views.items():
        counts = ", ".join(f"{count:,}" for count in view.colors[:8]) + (", …" if len(view.colors) > 8 else "")
        lines.append(f"  {times:<16}{counts}; depth {view.depth}")
    if any(share.unknown for view in report.views.values() for share in view.links.values()):
        lines += ["", "+? are pairs with too many walks to list."]
    p = report.probe
    lines += [
        "",
        "Pairs of links ranked right by coarse facts, learned from earlier links without training:",
        "",
        f"  {'nodes alone':<16}{p.nodes:>12.1%}",
        f"  {'positions alone':<16}{p.positions:>12.1%}",
        f"  {'both':<16}{p.both:>12.1%}   positions add {p.gain:+.1%} ± {p.error:.1%}",
    ]
    return "\n".join([*lines, "", report.advice])


def svg(report: DataReport) -> str:
    """Bars of what each class can and cannot separate, one panel for each way to see time."""
    panels = draw.Canvas()
    key = [("can separate", CAN), ("provably cannot", CANNOT), ("not decided", UNKNOWN)]
    for number, (times, meaning) in enumerate(TIMES.items()):
        rows = []
        for model in CLASSES:
            share = report.views[times].links[model]
            whole = max(share.pairs, 1)
            pieces = [(share.can / whole, CAN), (share.cannot / whole, CANNOT), (share.unknown / whole, UNKNOWN)]
            rows.append((model, pieces, _percent(share)))
        panel = draw.bars(f"{times}: {meaning}", rows, key if not number else ())
        panels.place(panel, 0, panels.bottom + 26 if number else 34)
    p = report.probe
    rows = [
        (name, [(value, CAN)], f"{value:.1%}")
        for name, value in (("nodes", p.nodes), ("positions", p.positions), ("both", p.both))
    ]
    panels.place(draw.bars("Pairs ranked right by coarse facts (half is chance)", rows), 0, panels.bottom + 26)
    panels.text((0, 8), f"Links told apart as of t={report.at_words}, without training", 17, anchor="start")
    return panels.svg("Share of links that each class of models can tell from a wrong one")


def _percent(share: Share) -> str:
    value = f"{share.can / share.pairs:.1%}" if share.pairs else "-"
    return value + (f" +{share.unknown / share.pairs:.0%}?" if share.unknown else "")
