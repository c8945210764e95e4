"""Sheets of Excel, headers of RecBole, and what is said about exact repeats."""

from __future__ import annotations

import zipfile

import pytest
from typer.testing import CliRunner

from pintgn import FileFormat, read_events
from pintgn.cli.app import app
from pintgn.errors import BadFile, BadInput

NAMESPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def sheet(rows) -> str:
    def cell(value) -> str:
        text = f'<c t="inlineStr"><is><t>{value}</t></is></c>' if isinstance(value, str) else f"<c><v>{value}</v></c>"
        return "<c/>" if value is None else text

    inside = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    return f'<worksheet xmlns="{NAMESPACE}"><sheetData>{inside}</sheetData></worksheet>'


def write_book(path, **sheets):
    """The smallest file that Excel would call a workbook."""
    listed, related = "", ""
    with zipfile.ZipFile(path, "w") as book:
        for k, (name, rows) in enumerate(sheets.items(), 1):
            listed += f'<sheet name="{name}" sheetId="{k}" r:id="r{k}"/>'
            related += f'<Relationship Id="r{k}" Type="{RELATIONS}/worksheet" Target="worksheets/sheet{k}.xml"/>'
            book.writestr(f"xl/worksheets/sheet{k}.xml", sheet(rows))
        book.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{NAMESPACE}" xmlns:r="{RELATIONS}"><sheets>{listed}</sheets></workbook>',
        )
        book.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{PACKAGE}/relationships">{related}</Relationships>'
        )
        target = f'<Relationship Id="r1" Type="{RELATIONS}/officeDocument" Target="xl/workbook.xml"/>'
        book.writestr("_rels/.rels", f'<Relationships xmlns="{PACKAGE}/relationships">{target}</Relationships>')
    return path


ROWS = [["src", "dst", "t", "price"], ["ann", "tea", 1, 4.5], ["bob", "tea", 2, 5], ["ann", "cup", 2, 12]]


def test_a_sheet_reads_as_the_same_columns(tmp_path):
    pytest.importorskip("python_calamine")
    path = write_book(tmp_path / "book.xlsx", orders=ROWS, other=[["a"], [1]])
    columns = {name: [row[k] for row in ROWS[1:]] for k, name in enumerate(ROWS[0])}
    expected = read_events(columns, features=["price"])
    assert read_events(path, features=["price"]) == expected
    assert read_events(f"{path}#orders", features=["price"]) == expected
    with pytest.raises(BadInput, match="has no sheet 'order'. Did you mean 'orders'"):
        read_events(f"{path}#order")
    with pytest.raises(BadInput, match="row 1 has no dst"):
        read_events(write_book(tmp_path / "gap.xlsx", one=[*ROWS[:2], ["bob", None, 2, 5]]))
    (tmp_path / "text.xlsx").write_text("src,dst,t\n1,2,3\n")
    with pytest.raises(BadFile, match="cannot be read as a spreadsheet"):
        read_events(tmp_path / "text.xlsx")
    with pytest.raises(BadInput, match="has no events"):
        read_events(write_book(tmp_path / "empty.xlsx", one=ROWS[:1]))


def test_headers_of_recbole_are_understood(tmp_path):
    path = tmp_path / "ml.inter"
    path.write_text("user_id:token\titem_id:token\trating:float\ttimestamp:float\n7\t3\t4.5\t10\n8\t3\t2\t11\n")
    log = read_events(path, "user_id", "item_id", "timestamp", features=["rating"])
    assert (log.ids.decode().to_pylist(), log.features.ravel().tolist()) == ([7, 3, 8], [4.5, 2])
    asked = CliRunner().invoke(app, ["data", "info", str(path)])
    assert asked.exit_code == 0, asked.stderr
    assert "taking 'user_id' as --src, 'item_id' as --dst, 'timestamp' as --time" in asked.stderr
    (tmp_path / "other.csv").write_text("src,dst:token,t\n1,2,3\n")  # one such name alone is a name
    assert read_events(tmp_path / "other.csv", dst="dst:token").schema.dst == "dst:token"


def test_exact_repeats_are_counted_and_kept(tmp_path):
    (tmp_path / "log.csv").write_text("src,dst,t\n1,2,3\n1,2,3\n2,1,3\n1,2,3\n1,2,4\n")
    asked = CliRunner().invoke(app, ["data", "info", str(tmp_path / "log.csv")])
    assert "note: 2 of 5 events repeat an earlier one exactly" in asked.stderr
    assert len(read_events(tmp_path / "log.csv")) == 5
    dropped = CliRunner().invoke(app, ["data", "info", str(tmp_path / "log.csv"), "--drop-duplicates"])
    assert "repeat an earlier" not in dropped.stderr


def test_a_group_is_taken_only_as_what_it_is():
    for name, wrong in (("columns", ["a", "b"]), ("cleaning", True), ("format", {"delimiter": ";"})):
        with pytest.raises(BadInput, match=f"{name}=.* takes a pintgn"):
            read_events({"src": [1], "dst": [2], "t": [3]}, **{name: wrong})
    with pytest.raises(BadInput, match="a delimiter is one character"):
        FileFormat(delimiter="::")
