"""Tables in databases are read as the same table in a Parquet file is, and what goes wrong is said in one line.

PostgreSQL is a server of its own, on this machine, that ends with these tests.
"""

from __future__ import annotations

import datetime
import os
import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pintgn import Cleaning, Columns, read_events
from pintgn.errors import BadFile, BadInput, EventOrderError, UnknownName
from pintgn.ingest import databases
from pintgn.ingest.sources import open_source
from tests.cli.forked import pintgn
from tests.conftest import around
from tests.postgres import postgres_server

PASSWORD = "s3cret-%7"
COLUMNS = {"src": "buyer", "dst": "seller", "t": "placed"}


def table(rows: int = 300) -> pa.Table:
    """Text ids, dates with a zone, decimals, and what is missing."""
    random = np.random.default_rng(7)
    start = datetime.datetime(2024, 3, 1, 9, tzinfo=datetime.UTC)
    placed = [start + datetime.timedelta(seconds=k // 2) for k in range(rows)]
    return pa.table(
        {
            "buyer": [f"ann {k}" for k in random.integers(0, 20, rows)],
            "seller": [f"böb {k}" for k in random.integers(0, 30, rows)],
            "placed": pa.array(placed, pa.timestamp("us", "UTC")),
            "amount": [round(float(value), 2) for value in random.uniform(0, 100, rows)],
            "count": [None if value == 3 else int(value) for value in random.integers(0, 9, rows)],
            "kind": [str(random.choice(["stock", "bond"])) if k % 5 else None for k in range(rows)],
        }
    )  # fmt: skip


READING = {**COLUMNS, "features": ["amount", "count", "kind"], "cleaning": Cleaning(fill=0)}


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("adbc_driver_postgresql")
    with postgres_server(PASSWORD) as port:
        yield f"postgresql://ann:{quote(PASSWORD)}@127.0.0.1:{port}/postgres"


def run(address: str, *statements: str, **tables: pa.Table) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        for name, content in tables.items():
            cursor.adbc_ingest(name, content, mode="create")
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


@pytest.fixture(scope="module")
def postgres(server):
    """A server with tables on it."""
    run(
        server,
        "create table orders as select buyer, seller, placed, amount::numeric(8, 2), count, kind from loaded",
        "drop table loaded",
        "create table customers as select distinct buyer as id, 30 + length(buyer) as age from orders",
        "create schema old",
        "create table old.orders as select * from orders limit 10",
        "create role bob login password 'x'",
        loaded=table(),
    )
    return server


def in_sqlite(path: Path) -> str:
    content = table()
    texts = [value.isoformat() for value in content["placed"].to_pylist()]
    columns = [*content.select(["buyer", "seller"]).to_pydict().values(), texts]
    columns += content.select(["amount", "count", "kind"]).to_pydict().values()
    with closing(sqlite3.connect(path)) as base:
        base.execute(
            "create table orders (buyer text, seller text, placed text, amount real, count integer, kind text)"
        )
        base.executemany("insert into orders values (?, ?, ?, ?, ?, ?)", zip(*columns, strict=True))
        base.execute("create table customers as select distinct buyer as id, 30 + length(buyer) as age from orders")
        base.commit()
    return str(path)


def in_duckdb(path: Path) -> str:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(path) as base:
        base.register("loaded", table())
        base.execute("create table orders as select * replace (amount::decimal(8, 2) as amount) from loaded")
        base.execute("create table customers as select distinct buyer as id, 30 + length(buyer) as age from orders")
    return str(path)  # fmt: skip


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def shop(request, tmp_path):
    """A database with two tables, of every kind."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres")
    return in_sqlite(tmp_path / "shop.db") if request.param == "sqlite" else in_duckdb(tmp_path / "shop.duckdb")


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the same table gives as Parquet."""
    path = tmp_path_factory.mktemp("parquet") / "orders.parquet"
    pq.write_table(table(), path)
    return read_events(path, **READING)


def same(log, expected) -> bool:
    """Events, ids, features and instants; SQLite has dates as text, in seconds."""
    scale = {"s": 10**6, "us": 1}[log.schema.time.unit]
    return (
        (log.t * scale == expected.t).all()
        and log.ids == expected.ids
        and (log.src == expected.src).all()
        and (log.dst == expected.dst).all()
        and np.array_equal(log.features, expected.features)
        and log.schema.features == expected.schema.features
        and log.schema.time.zone == expected.schema.time.zone == "UTC"
    )


@pytest.mark.parametrize("query", ["orders", "select * from orders", "select *, 1 as more from orders -- all\n;"])
def test_a_table_reads_as_from_parquet(shop, expected, query):
    assert same(read_events(f"{shop}#{query}", **READING), expected)
    assert same(read_events(f"{shop}#{query}", **READING), expected)


@pytest.mark.parametrize("batch", around(150))
def test_a_table_reads_alike_in_batches_of_any_size(shop, expected, batch, monkeypatch):
    monkeypatch.setattr(databases, "BATCH", batch)
    assert same(read_events(f"{shop}#orders", **READING), expected)


def test_a_query_chooses_renames_and_orders(shop, expected):
    query = "select seller as src, buyer as dst, placed as t from orders where amount > 50 order by placed desc"
    with pytest.raises(EventOrderError, match="row .* earlier than the event before it"):
        read_events(f"{shop}#{query}", cleaning=Cleaning(sort=False))
    log = read_events(f"{shop}#{query}", cleaning=Cleaning(sort=True))
    assert len(log) == (expected.features[:, 0] > 50).sum()
    assert set(log.ids.decode().to_pylist()) <= set(expected.ids.decode().to_pylist())


def test_nodes_come_from_a_database_as_well(shop):
    with pytest.warns(match="lacks"):
        log = read_events(f"{shop}#orders", columns=Columns(nodes=f"{shop}#customers"), **COLUMNS)
    assert log.node_features[log.node("ann 3")] == 35


def test_only_what_is_there_is_offered(shop):
    with pytest.raises(BadInput, match=r"has \d tables: 'customers', 'orders'.*--query customers"):
        read_events(shop)
    with pytest.raises(BadInput, match="has no table 'order'.*Did you mean 'orders'"):
        read_events(f"{shop}#order")
    with pytest.raises(BadInput, match="refuses the query: .*ordrs.* Did you mean 'orders'"):
        read_events(f"{shop}#select * from ordrs")
    with pytest.raises(BadInput, match="refuses the query: .*nope"):
        read_events(f"{shop}#select nope from orders")
    with pytest.raises(UnknownName, match="table 'orders' has no column 'byer'. Did you mean 'buyer'"):
        read_events(f"{shop}#orders", **COLUMNS | {"src": "byer"})
    with pytest.raises(BadInput, match="the query has two columns called 'buyer'"):
        read_events(f"{shop}#select buyer, buyer, seller, placed from orders", **COLUMNS)
    with pytest.raises(BadInput, match="behind '#', and --query gives another"):
        open_source(f"{shop}#orders", query="orders")


def test_a_gap_names_its_row(shop):
    query = "select case when amount < 50 then buyer end as buyer, seller, placed from orders order by amount desc"
    over = int((table()["amount"].to_numpy() >= 50).sum())
    with pytest.raises(BadInput, match=f"row {over} has no buyer. Correct it"):
        read_events(f"{shop}#{query.replace('<', '>=')}", cleaning=Cleaning(sort=True), **COLUMNS)


def test_nothing_is_ever_written(shop):
    for statement in (
        "delete from orders",
        "delete from orders returning *",
        "drop table orders",
        "create table x (y int)",
    ):
        with pytest.raises(BadInput, match="refuses the query|gives no rows"):
            list(open_source(shop, query=statement).batches(["buyer"]))
    assert len(read_events(f"{shop}#orders", **COLUMNS)) == 300


def test_an_empty_result_is_said(shop):
    with pytest.raises(BadInput, match="the query has no events"):
        read_events(f"{shop}#select * from orders where amount < 0", **COLUMNS)


def test_reading_may_stop_early(shop):
    batches = open_source(shop, query="orders").batches(["buyer"])
    assert next(batches).num_rows
    batches.close()
    assert len(read_events(f"{shop}#orders", **COLUMNS)) == 300


# -- PostgreSQL alone --------------------------------------------------------------------------------------


def test_numbers_of_any_length_are_kept_exactly(server):
    """`extract(epoch …)` is numeric, which has no Arrow type: such times lose no digit, and features are numbers."""
    rows = "(1, 2, 1700000000.000001::numeric, 1.5::numeric), (2, 1, 1700000000.000002, 'NaN'), (2, 1, 1700000001, 7)"
    log = read_events(
        f"{server}#select * from (values {rows}) as x (src, dst, t, x)", features=["x"], cleaning=Cleaning(fill=0)
    )
    assert log.t.tolist() == [1700000000.000001, 1700000000.000002, 1700000001]
    assert log.features.ravel().tolist() == [1.5, 0, 7]
    whole = read_events(f"{server}#select 1 as src, 2 as dst, (10 ^ 17::numeric)::numeric(20, 0) + 1 as t")
    assert whole.t.tolist() == [10**17 + 1]
    with pytest.raises(BadInput, match="which float64 cannot tell from"):
        read_events(f"{server}#select 1 as src, 2 as dst, 1e16::numeric + x / 10.0 as t from generate_series(1, 2) x")


def test_types_of_postgres(server):
    log = read_events(
        f"{server}#select 'c56a4180-65aa-42ec-a945-5fd21dec0538'::uuid as src, gen_random_uuid() as dst, "
        "date '2024-03-01' as t, true as yes, 2::smallint as small, 1.5::real as x",
        features="all",
    )
    assert log.id(log.src[0]) == "c56a4180-65aa-42ec-a945-5fd21dec0538"
    assert log.schema.time.show(log.t[0]) == "2024-03-01"
    assert log.schema.feature_columns() == ["yes=True", "small", "x"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("s3cret-%257", "wrong-pw"), 'password authentication failed for user "ann". Check user and password'),
        (("/postgres", "/nope"), 'cannot connect to .*: database "nope" does not exist'),
        (("s3cret-%257", "s3cret-%zz"), 'invalid percent-encoded token: "…"'),
        (("@127", "%40@x@127"), "an '@' where none can be"),
        (("s3cret", "s3/cret"), "an '@' where none can be"),
        (("s3cret", "s3#cret"), "an '@' where none can be"),
        (("/postgres", "/postgres?nope=s3cret"), "invalid URI query parameter"),
        (("ann:s3cret-%257", "bob:x"), "has no tables that this user may read"),
        (("postgresql:", "mysql:"), "mysql:// cannot be read"),
    ],
)  # fmt: skip
def test_errors_show_no_password(postgres, given, message):
    with pytest.raises((BadFile, BadInput), match=message) as caught:
        read_events(f"{postgres.replace(*given)}#orders")
    assert "s3cret" not in str(caught.value)
    assert "wrong-pw" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_not_there(postgres):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(BadFile, match="Connection refused. Does it run there"):
            read_events(f"postgresql://ann@127.0.0.1:{free.getsockname()[1]}/shop#orders")


def test_a_table_of_another_schema_and_an_address_for_another_driver(postgres):
    address = postgres.replace("postgresql://", "postgresql+psycopg2://")
    assert len(read_events(f"{address}#old.orders", **COLUMNS)) == 10


def test_training_from_postgres_leaves_no_password_anywhere(postgres, tmp_path):
    done = pintgn(
        "train", postgres, "--query", "select * from orders order by placed", "--src", "buyer", "--dst", "seller",
        "--time", "placed", "--model", "edgebank", "--no-report", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "postgres-edgebank" / "run.json").exists()
    seen = pintgn(
        "predict", "runs/postgres-edgebank", f"{postgres}#old.orders", "--at", "2024-04-01T00:00:00Z", cwd=tmp_path
    )
    assert seen.stdout.count("\n") == 11, seen.stderr
    for said in (done.stdout, done.stderr, seen.stderr):
        assert "s3cret" not in said
    for path in tmp_path.rglob("*"):
        assert "s3cret" not in path.name
        assert path.is_dir() or b"s3cret" not in path.read_bytes()


# -- the command line --------------------------------------------------------------------------------------


def test_the_command_line_reads_databases(shop, tmp_path):
    query = "select buyer, seller, placed as created_at from orders"
    asked = pintgn("data", "info", shop, "--query", query, "--json", cwd=tmp_path)
    assert '"events": 300' in asked.stdout, asked.stderr
    assert asked.stderr == "note: taking 'buyer' as --src, 'seller' as --dst, 'created_at' as --time\n"


def test_the_command_line_asks_which_table(tmp_path):
    asked = pintgn("data", "info", in_sqlite(tmp_path / "shop.db"), cwd=tmp_path)
    assert asked.returncode == 2
    assert asked.stderr.count("\n") == 1
    assert "--query customers" in asked.stderr


# -- files -------------------------------------------------------------------------------------------------


def test_the_only_table_need_not_be_named(tmp_path):
    with closing(sqlite3.connect(tmp_path / "one.sqlite")) as base:
        base.execute('create table "my 2"" events" (src, dst, t)')
        base.execute('create index by_time on "my 2"" events" (t)')
        base.execute('insert into "my 2"" events" values (1, 2, 3)')
        base.commit()
    assert len(read_events(tmp_path / "one.sqlite")) == 1
    assert len(read_events(f"sqlite:///{tmp_path}/one.sqlite")) == 1


def test_a_column_of_sqlite_has_one_type(tmp_path, monkeypatch):
    monkeypatch.setattr(databases, "BATCH", 2)
    with closing(sqlite3.connect(tmp_path / "loose.db")) as base:
        base.execute("create table events (src, dst, t numeric, kind, x)")
        rows = [
            (1, 2, 1, None, None),
            (1, 2, 2, None, None),
            (1, 2, 2.5, "a", 0.5),
            (3, 1, 3, "b", 2),
            (3, 1, 4, None, 7),
        ]
        base.executemany("insert into events values (?, ?, ?, ?, ?)", rows)
        base.commit()
        log = read_events(tmp_path / "loose.db", features=["kind", "x"], cleaning=Cleaning(fill=0))
        assert log.t.tolist() == [1, 2, 2.5, 3, 4]
        assert log.schema.feature_columns() == ["kind=a", "kind=b", "x"]
        assert log.features[:, 2].tolist() == [0, 0, 0.5, 2, 7]
        base.execute("insert into events values (4, 'x', 5, 'a', 1)")
        base.execute("insert into events values (4, 4, 5, 'a', 'many')")
        base.commit()
    with pytest.raises(BadInput, match=r"row 5 has 'x' \(str\) in column 'dst', where there was int before"):
        read_events(tmp_path / "loose.db")


@pytest.mark.parametrize("make", [in_sqlite, in_duckdb])
def test_a_damaged_database_is_one_line(make, tmp_path):
    path = Path(make(tmp_path / "shop.db"))
    whole = path.read_bytes()
    for content in (whole[:3000], whole[:4096] + b"\xff" * (len(whole) - 4096)):
        path.write_bytes(content)
        with pytest.raises((BadFile, BadInput)) as caught:
            read_events(f"{path}#orders", **COLUMNS)
        assert "\n" not in str(caught.value)


def test_a_query_needs_a_database(tmp_path):
    (tmp_path / "events.csv").write_text("src,dst,t\n1,2,3\n")
    pq.write_table(table(), tmp_path / "events.parquet")
    for source in (tmp_path / "events.csv", tmp_path / "events.parquet", f"{tmp_path}/events.csv#orders", {"src": [1]}):
        with pytest.raises(BadInput, match="asks a database, and .* is none"):
            open_source(source, query=None if "#" in str(source) else "orders")
    os.rename(tmp_path / "events.csv", tmp_path / "a#b.csv")  # a name is a name
    assert len(read_events(tmp_path / "a#b.csv")) == 1


@pytest.mark.parametrize(("module", "extra"), [("duckdb", "duckdb"), ("adbc_driver_postgresql", "postgres")])
def test_a_missing_extra_is_named(module, extra, tmp_path, monkeypatch):
    source = in_duckdb(tmp_path / "shop.duckdb") if extra == "duckdb" else "postgresql://127.0.0.1/shop"
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BadInput, match=rf"Install it: pip install 'pintgn\[{extra}\]'"):
        read_events(f"{source}#orders")
