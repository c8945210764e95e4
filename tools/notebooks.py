"""Notebooks without a notebook server: cells run in order, outputs are kept, and the site shows them as pages.

`python tools/notebooks.py` runs docs/notebooks/*.ipynb, each in an empty folder, and writes their outputs anew. What a
cell's last line is worth is shown as Jupyter would: as a drawing, as a table, else as text.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
KINDS = {"image/svg+xml": "_repr_svg_", "text/html": "_repr_html_"}


def notebooks() -> list[Path]:
    return sorted(FOLDER.glob("*.ipynb"))


def run(notebook: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Every cell of code with its outputs; here, in one namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(one for one in notebook["cells"] if one["cell_type"] == "code"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = _value("".join(cell["source"]), f"cell {number + 1}", namespace)
        outputs = []
        if printed.getvalue():
            lines = printed.getvalue().splitlines(keepends=True)
            outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
        if value is not None:
            data = {"text/plain": repr(value).splitlines(keepends=True)}
            data |= {kind: getattr(value, name)() for kind, name in KINDS.items() if hasattr(value, name)}
            result = {"output_type": "execute_result", "execution_count": number + 1, "data": data, "metadata": {}}
            outputs.append(result)
        yield cell, outputs


def _value(source: str, name: str, namespace: dict[str, Any]) -> Any:
    """Run a cell; what its last line is worth."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    return None if last is None else eval(compile(ast.Expression(last.value), name, "eval"), namespace)


def rewritten(path: Path) -> str:
    """A notebook with the outputs that it has now."""
    notebook = json.loads(path.read_text())
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, (cell, outputs) in enumerate(run(notebook), 1):
            cell["outputs"], cell["execution_count"] = outputs, number
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def markdown(notebook: dict[str, Any], name: str) -> str:
    """A notebook as a page of the site."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_shown(output) for output in cell.get("outputs", [])]
    return "\n\n".join([*parts, f"[Download this notebook]({name}.ipynb)"]) + "\n"


def _shown(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    data = output["data"]
    if "image/svg+xml" in data:  # as an image, so that its style stays its own
        encoded = base64.b64encode("".join(data["image/svg+xml"]).encode()).decode()
        return f'<img alt="a drawing" src="data:image/svg+xml;base64,{encoded}">'
    if "text/html" in data:
        return f'<div class="output">{"".join(data["text/html"])}</div>'.replace("\n", " ")
    return f"```text\n{''.join(data['text/plain'])}\n```"


if __name__ == "__main__":
    for path in notebooks():
        path.write_text(rewritten(path))
        print(f"wrote {path.name}")
