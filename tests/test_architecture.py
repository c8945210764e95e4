"""The import table of docs/architecture.md holds, and importing the package stays light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "src" / "pintgn"


def import_table() -> dict[str, set[str] | None]:
    """Package -> packages it may import (None: anything), read from the table in docs/architecture.md."""
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", (ROOT / "docs" / "architecture.md").read_text(), re.M)
    return {
        package: None if allowed.strip() == "anything" else {name.strip() for name in allowed.split(",")} - {""}
        for package, allowed in rows
    }


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports_of(source: str) -> set[str]:
    """Every pintgn module that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "pintgn"}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pintgn":
            bare = node.module == "pintgn"
            found |= {f"pintgn.{alias.name}" for alias in node.names} if bare else {node.module}
    return found


def test_every_file_imports_only_what_its_package_may():
    table = import_table()
    broken = []
    for path in sorted(PACKAGE.rglob("*.py")):
        package = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if package in ("__init__", "__main__"):
            continue
        assert package in table, f"{path.name}: package {package!r} is missing from docs/architecture.md"
        for module in imports_of(path.read_text()) - {"pintgn.__version__"}:
            allowed, target = table[package], package_of(module)
            if target != package and allowed is not None and target not in allowed:
                broken.append(f"{path.relative_to(PACKAGE)} imports {module}")
            if target == "cli" and package != "cli":
                broken.append(f"{path.relative_to(PACKAGE)} imports the command line")
    assert not broken, "\n".join(broken)


def test_the_table_lists_no_package_twice_and_has_no_cycle():
    table = {package: allowed for package, allowed in import_table().items() if allowed is not None}
    done: set[str] = set()
    while len(done) < len(table):
        free = [package for package, allowed in table.items() if package not in done and allowed <= done]
        assert free, f"packages import each other in a circle: {sorted(set(table) - done)}"
        done |= set(free)


def test_kernels_import_numpy_numba_and_kernels_of_their_package_only():
    for path in PACKAGE.rglob("kernels*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            own = f"pintgn.{path.parent.name}.kernels"
            roots = {name.split(".")[0] for name in names if not name.startswith(own) and name != "pintgn.compiled"}
            outside = roots - {"numpy", "numba", "llvmlite", "math", "__future__"}
            assert not outside, f"{path.relative_to(PACKAGE)} imports {outside}"


@pytest.mark.parametrize("module", ["pintgn", "pintgn.cli"])
def test_importing_loads_neither_torch_nor_numba(module):
    code = f"import sys, {module}; print(sorted({{'torch', 'numba', 'sklearn', 'pandas'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_importing_the_package_loads_nothing_but_itself():
    code = "import sys; before = set(sys.modules); import pintgn; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    assert {name for name in loaded if name.startswith("pintgn")} == {"pintgn"}
    assert {name.split(".")[0] for name in loaded} - sys.stdlib_module_names == {"pintgn", "lazy_loader"}


def missing_files(text: str) -> list[str]:
    """Files that a page names in backticks and that are neither in the package nor in the repository."""
    named = set(re.findall(r"`([\w./-]+\.py)`", text))
    return sorted(name for name in named if not (PACKAGE / name).is_file() and not (ROOT / name).is_file())


def unknown_names(text: str) -> list[str]:
    """Python names that a page names in backticks and that occur nowhere in the package's code."""
    known = set()
    for path in PACKAGE.rglob("*.py"):
        known |= set(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            known |= {getattr(node, field, None) for field in ("id", "attr", "name", "arg")}
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    named = {name for name in re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", text) if not name.endswith(".py")}
    return sorted(name for name in named if not set(name.split(".")) <= known)


def test_the_page_about_architecture_names_only_what_exists():
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert missing_files(page) == []
    assert set(unknown_names(page)) == {"NO_COLOR", "NUMBA_CACHE_DIR"}  # of the environment


def test_a_name_that_is_gone_is_found():
    page = "Look into `stream/core.py`, `learn/words.py` and `core.py`; `Stream.fork` beside `Stream.looks_ahead`."
    assert missing_files(page) == ["core.py", "learn/words.py"]
    assert unknown_names(page) == ["Stream.looks_ahead"]


def test_files_stay_readable():
    long = [p for p in PACKAGE.rglob("*.py") if len(p.read_text().splitlines()) > 450]
    assert not long, f"files that want to be two: {long}"
