"""One small change at a time: every place in a file where one could be made, as text that replaces text.

Changes are found in the syntax tree and made in the source, so that everything else stays as it is, comments included.
What only words depend on is left alone: docstrings, annotations, decorators, messages of errors and warnings. So is
what stands outside of functions: constants that are sizes have tests of their own (`tests/test_limits.py`).
"""

from __future__ import annotations

import ast
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"), ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"),
    ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
    ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
RENAMED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"}
SIDES = {"left": "right", "right": "left"}
WORDS_ONLY = ("raise", "warn")


@dataclass(frozen=True)
class Mutant:
    """A change of one file."""

    path: str  # under src/pintgn
    function: str  # qualified name; empty outside of functions
    line: int
    kind: str
    start: int  # of the text that is replaced, in characters
    stop: int
    before: str
    after: str
    offset: int  # from the beginning of the outermost function
    digest: str  # of that function's text

    @property
    def name(self) -> str:
        """The same for as long as the function is, whatever else changes."""
        parts = (self.path, self.function, self.kind, self.offset, self.before, self.after, self.digest)
        return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:12]

    def applied(self, source: str) -> str:
        return source[: self.start] + self.after + source[self.stop :]

    def __str__(self) -> str:
        before, after = (" ".join(text.split())[:60] for text in (self.before, self.after))
        return f"{self.path}:{self.line} {self.function}: {before}  ->  {after}"


def mutants(path: Path, root: Path) -> list[Mutant]:
    """Every change of a file, in the order of its text."""
    source = path.read_text()
    finder = Finder(source, path.relative_to(root).as_posix())
    finder.visit(ast.parse(source))
    kept = {(one.start, one.stop, one.after): one for one in finder.found}
    return sorted(kept.values(), key=lambda one: (one.start, one.stop, one.after))


def compiles(source: str) -> bool:
    """Whether it is Python at all: a change that is not tells nothing."""
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


class Finder(ast.NodeVisitor):
    """Walks through a file and notes what could be changed."""

    def __init__(self, source: str, path: str):
        self.source, self.path, self.found = source, path, list[Mutant]()
        self.function = self.prefix = ""  # where we are, and how names within it begin
        self.begin, self.digest = 0, ""  # of the outermost function
        self.lines = source.splitlines(keepends=True)
        self.starts = [0, *itertools.accumulate(map(len, self.lines))]

    # -- places ----------------------------------------------------------------------------------------------------

    def at(self, line: int, column: int) -> int:
        """A place that the tree names by line and bytes, in characters."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)  # type: ignore

    def text(self, node: ast.AST) -> str:
        return self.source[slice(*self.span(node))]

    def note(self, node: ast.AST, kind: str, after: str, span: tuple[int, int] | None = None) -> None:
        if not self.function:
            return
        start, stop = span or self.span(node)
        line, before = self.source.count("\n", 0, start) + 1, self.source[start:stop]
        own = self.path, self.function, line, kind, start, stop, before, after, start - self.begin, self.digest
        self.found.append(Mutant(*own))

    def between(self, left: ast.AST, right: ast.AST) -> tuple[int, int]:
        """Where the operator between two nodes stands, blanks and brackets included."""
        return self.span(left)[1], self.span(right)[0]

    # -- what is walked through --------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outside = self.function, self.prefix
        if not self.function:
            self.begin, self.digest = self.span(node)[0], hashlib.sha256(self.text(node).encode()).hexdigest()[:12]
        self.function = self.prefix + node.name
        self.prefix = f"{self.function}.<locals>."
        self._block(node.body)
        self.function, self.prefix = outside

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outside, self.prefix = self.prefix, f"{self.prefix}{node.name}."
        self._block(node.body)
        self.prefix = outside

    def visit_Module(self, node: ast.Module) -> None:
        self._block(node.body)

    def _block(self, body: list[ast.stmt]) -> None:
        for place, statement in enumerate(body):
            words = place == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not words:
                self.visit(statement)

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_Import(self, node: ast.Import) -> None:
        pass

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_arguments(self, node: ast.arguments) -> None:
        pass

    # -- changes ---------------------------------------------------------------------------------------------------

    def _operator(self, node: ast.AST, kind: str, operator: ast.AST, left: ast.AST, right: ast.AST) -> None:
        """Another operator between two nodes."""
        start, stop = self.between(left, right)
        written, (sign, other) = self.source[start:stop], OPERATORS[type(operator)]
        self.note(node, kind, written.replace(sign, other, 1), (start, stop))

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self._operator(node, "comparison", operator, left, right)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPERATORS:
            self._operator(node, "arithmetic", node.op, node.left, node.right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in itertools.pairwise(node.values):
            self._operator(node, "and/or", node.op, left, right)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.Invert | ast.USub) and not isinstance(node.operand, ast.Constant):
            self.note(node, "negation", f"({self.text(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.note(node, "constant", str(not node.value))
        elif isinstance(node.value, int):
            self.note(node, "constant", str(node.value + 1))
            if node.value > 0:
                self.note(node, "constant", str(node.value - 1))
        elif node.value in SIDES:
            self.note(node, "side", repr(SIDES[node.value]))

    def visit_Call(self, node: ast.Call) -> None:
        named = node.func
        name = named.id if isinstance(named, ast.Name) else named.attr if isinstance(named, ast.Attribute) else ""
        if name in WORDS_ONLY:
            return
        if name in RENAMED:
            stop = self.span(named)[1]
            self.note(node, "function", RENAMED[name], (stop - len(name), stop))
        plain = [one for one in node.args[:2] if isinstance(one, ast.Name | ast.Attribute | ast.Subscript)]
        if len(plain) == 2 and name != "isinstance" and self.text(plain[0]) != self.text(plain[1]):
            first, second = plain
            gap = self.source[slice(*self.between(first, second))]
            swapped = f"{self.text(second)}{gap}{self.text(first)}"
            self.note(node, "arguments", swapped, (self.span(first)[0], self.span(second)[1]))
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        self.note(node.test, "condition", f"(not ({self.text(node.test)}))")
        self.generic_visit(node)

    visit_While = visit_IfExp = visit_If

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in OPERATORS:
            self._operator(node, "arithmetic", node.op, node.target, node.value)
        self.note(node, "statement", "pass")
        self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if all(isinstance(target, ast.Subscript | ast.Attribute) for target in node.targets):
            self.note(node, "statement", "pass")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.note(node, "statement", "pass")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue | ast.Break) -> None:
        self.note(node, "statement", "pass")

    visit_Break = visit_Continue

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self.note(node, "statement", "pass")
        self.generic_visit(node)


def functions(tree: ast.AST) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function of a tree under its qualified name, as `co_qualname` has it."""

    def walk(node: ast.AST, scope: str) -> Iterator[tuple[str, ast.FunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                yield f"{scope}{child.name}", child
                yield from walk(child, f"{scope}{child.name}.<locals>.")
            else:
                yield from walk(child, f"{scope}{child.name}." if isinstance(child, ast.ClassDef) else scope)

    yield from walk(tree, "")
