"""A hook of MkDocs: files of the repository that pages refer to become part of the site, objects and notebooks pages.

Pages link to files beside docs/ (`../paper/paper.toml`), so that the links work on disk and in a repository browser.
Here each such file is copied into the site under files/, and the links are turned there. CHANGELOG.md, CONTRIBUTING.md
and SECURITY.md become pages. docs/api.md lists every public object (`::: pintgn.fit`): each gets a page of its own, and
the list becomes one of links.
"""

from __future__ import annotations

import inspect
import json
import os
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # MkDocs loads a hook by its file

from tools.notebooks import markdown, notebooks  # noqa: E402

PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
SHIM = "https://unpkg.com/iframe-worker/shim"
SHELL = re.compile(r"^( *)```\n(?= *(?:pintgn|make|python|pip|curl|\.venv)\b)", re.M)
OBJECT = re.compile(r"^::: (\S+)\n((?: {4}.*\n)*)", re.M)
LINK = re.compile(r"(\]\()((?:\.\./|[\w./-]+)[^)#\s]*)(#[^)\s]*)?(\))")


def on_config(config: Any) -> Any:
    """Put the page of every object into the navigation, below the list of all."""
    for tab in config["nav"]:
        pages = next(iter(tab.values()))
        if "api.md" in pages:
            pages[pages.index("api.md")] = {"Python interface": ["api.md", *sections()]}
    return config


def sections() -> list[dict[str, list[dict[str, str]]]]:
    """The objects of docs/api.md below its headings, as a navigation."""
    found = []
    for part in re.split(r"^## ", (ROOT / "docs" / "api.md").read_text(), flags=re.M)[1:]:
        pages = [{_title(name): _page(name)} for name, _ in OBJECT.findall(part)]
        found += [{part.partition("\n")[0]: pages}] if pages else []
    return found


def _title(name: str) -> str:
    """
    >>> _title("pintgn.fit"), _title("pintgn.theory.item"), _title("pintgn.models.message_passing.TreeModel")
    ('fit', 'theory.item', 'TreeModel')
    """
    return name.rpartition(".")[2] if name.count(".") == 1 or "models." in name else name.removeprefix("pintgn.")


def _page(name: str) -> str:
    return f"api/{name.removeprefix('pintgn.')}.md"


def _listed(name: str) -> str:
    """A line of the list of objects: a link, and what the object is."""
    first = (inspect.getdoc(pkgutil.resolve_name(name)) or "").partition("\n\n")[0]
    return f"- [`{_title(name)}`]({_page(name)}): {' '.join(first.split())}\n"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that live at the repository's root, those of objects, and every file that some page links to
    outside docs/."""
    for name, options in OBJECT.findall((ROOT / "docs" / "api.md").read_text()):
        title = "# Errors\n\n" if "show_root_heading: false" in options else ""
        content = f"{title}::: {name}\n{options}"
        files.append(File.generated(config, _page(name), content=content))
    for path in notebooks():
        page = markdown(json.loads(path.read_text()), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=_from_root((ROOT / source).read_text())))
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for target in outside(path.read_text(), path.parent):
            if target.name not in PAGES and target.is_file() and not files.get_file_from_path(_place(target)):
                files.append(File.generated(config, _place(target), abs_src_path=str(target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to files of the repository to their copies in the site."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def turned(found: re.Match[str]) -> str:
        target = _outside(folder / found[2])
        if target is None or not target.is_file():
            return found[0]
        place = PAGES.get(target.name, _place(target))
        return f"{found[1]}{os.path.relpath(place, Path(page.file.src_uri).parent)}{found[3] or ''}{found[4]}"

    if page.file.src_uri == "api.md":
        markdown = OBJECT.sub(lambda found: _listed(found[1]), markdown + "\n")
    markdown = SHELL.sub(r"\1```bash\n", markdown)  # commands are coloured as such, outputs are not
    return LINK.sub(turned, markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The theme's search would load a helper for pages opened from disk from elsewhere; ours is in the site."""
    return output.replace(SHIM, get_relative_url("javascripts/file-worker.js", page.url))


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    return output_content.replace(SHIM, "javascripts/file-worker.js")


def outside(text: str, folder: Path) -> list[Path]:
    """The files of the repository, but not of docs/, that a page in a folder links to."""
    found = (_outside(folder / link[2]) for link in LINK.finditer(text))
    return [path for path in found if path is not None]


def _outside(path: Path) -> Path | None:
    path = Path(os.path.normpath(path))
    inside = path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "docs")
    return path if inside else None


def _place(path: Path) -> str:
    """Where a file of the repository is in the site; Markdown would be taken for a page, so it is shown as text."""
    name = f"files/{path.relative_to(ROOT).as_posix()}"
    return f"{name}.txt" if path.suffix == ".md" else name


def _from_root(text: str) -> str:
    """A page of the root as it reads from within docs/."""
    return re.sub(r"\]\((?!https?:|#|mailto:)(?:docs/)?([^)]+)\)", lambda m: _relinked(m[0], m[1]), text)


def _relinked(whole: str, rest: str) -> str:
    return f"]({rest})" if "(docs/" in whole else f"](../{rest})"
