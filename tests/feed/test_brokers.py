"""NATS JetStream and PostgreSQL for real, Kafka on librdkafka's mock cluster: each event once, whoever is killed."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest

from pintgn.errors import BadFile, BadInput
from pintgn.feed.kafka import KafkaSource
from pintgn.feed.nats import NatsSource
from pintgn.feed.postgres_table import PostgresSource
from pintgn.feed.stream_source import Bookmark
from tests.feed.helpers import fed, killed_often, nats_server
from tests.postgres import postgres_server
from tests.serve.helpers import TRAINED, as_events


def check_all(alive, columns, arguments, kills):
    """Feed under fire, then to the end: what the service holds is what the source holds."""
    killed_often(arguments, kills, seed=1)
    code, said, noise = fed(*arguments, "--once", "--json")
    assert code == 0, noise
    found = alive.end()
    wanted = list(zip(columns["src"], columns["dst"], columns["t"], strict=True))[TRAINED:]
    assert [row[:3] for row in found] == wanted, "an event is missing, doubled or out of order"
    keys = [row[3] for row in found]
    assert len(set(keys)) == len(keys)
    return json.loads(said)


def read_all(source, most=10):
    rows = []
    while True:
        batch = source.read(most, 0.2)
        rows += batch.rows
        if batch.rows:
            source.commit(batch.position)
        elif batch.end:
            return rows


def slowly(count, one):
    """Calls a function for each number while others work."""

    def work():
        for k in range(count):
            one(k)
            if k % 20 == 0:
                time.sleep(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


# -- NATS --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nats():
    with nats_server() as address:
        yield address


def published(address, stream, messages, subjects=None):
    """Publish messages to a stream, made when it is not there."""
    import nats

    async def work():
        client = await nats.connect(address)
        context = client.jetstream()
        await context.add_stream(name=stream, subjects=subjects or [stream.lower()])
        for message in messages:
            subject, data = message if isinstance(message, tuple) else (stream.lower(), message)
            await context.publish(subject, data if isinstance(data, bytes) else json.dumps(data).encode())
        await client.close()

    asyncio.run(work())


def test_nats_killed_again_and_again_every_message_arrives_once(alive, columns, nats, tmp_path):
    events = as_events(columns, TRAINED, len(columns["t"]))
    published(nats, "ORDERS", events[:100])
    rest = threading.Thread(target=lambda: [published(nats, "ORDERS", events[k : k + 40]) for k in range(100, 660, 40)])
    rest.start()
    arguments = [f"{nats}/ORDERS", alive.address, "--bookmark", tmp_path / "mark", "--batch", "30"]
    killed_often(arguments, 4, seed=0, patience=0.8)
    rest.join()
    told = check_all(alive, columns, arguments, kills=3)
    assert told["position"] == len(events)


def test_nats_goes_on_after_the_bookmark_and_over_lost_messages(nats, tmp_path):
    published(nats, "GAPS", [{"t": k} for k in range(30)] + [b"nonsense"])

    def opened(**more):
        return NatsSource(nats, "GAPS", Bookmark(tmp_path / "mark", "x", "y"), **more)

    source = opened()
    batch = source.read(7, 0.5)
    source.commit(batch.position)
    assert [row.values["t"] for row in batch.rows] == list(range(7))
    source.delivered += 3  # as if three messages had been lost on the way
    rows = read_all(source)
    source.close()
    assert [row.values.get("t") for row in rows] == [*range(7, 30), None]
    assert rows[-1].error == "it is no JSON"
    source = opened()
    assert read_all(source) == []
    source.close()
    source = opened(from_start=True)
    assert [row.key for row in read_all(source)] == [f"GAPS:{k}" for k in range(1, 32)]
    source.close()


def test_nats_filters_by_subject(nats, tmp_path):
    published(nats, "MANY", [("many.a", {"t": 1}), ("many.b", {"t": 2}), ("many.a", {"t": 3})], ["many.*"])
    source = NatsSource(nats, "MANY", Bookmark(tmp_path / "mark", "x", "y"), subject="many.a")
    assert [row.values["t"] for row in read_all(source)] == [1, 3]
    source.close()


def test_nats_that_is_not_there_is_one_line(nats, tmp_path):
    bookmark = Bookmark(tmp_path / "mark", "x", "y")
    with pytest.raises(BadInput, match="no stream 'NOWHERE'"):
        NatsSource(nats, "NOWHERE", bookmark)
    bookmark.close()
    code, _, noise = fed("nats://127.0.0.1:1/X", "http://127.0.0.1:1", "--bookmark", tmp_path / "mark")
    assert (code, noise.count("\n")) == (2, 1)
    assert "cannot connect to nats://127.0.0.1:1" in noise


# -- Kafka, on librdkafka's mock cluster -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kafka():
    """Brokers that live in a producer of this process; feeders reach them as any others."""
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "ignored"})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    return producer, f"{broker.host}:{broker.port}"


def produced(producer, topic, messages, partition=0):
    for message in messages:
        producer.produce(topic, json.dumps(message).encode(), partition=partition)
    assert producer.flush(10) == 0


def test_kafka_killed_again_and_again_every_message_arrives_once(alive, columns, kafka):
    producer, brokers = kafka
    events = as_events(columns, TRAINED, len(columns["t"]))
    produced(producer, "orders", events[:100])
    rest = slowly(len(events) - 100, lambda k: produced(producer, "orders", [events[100 + k]]))
    arguments = [f"kafka://{brokers}/orders", alive.address, "--batch", "30"]
    killed_often(arguments, 4, seed=0, patience=0.8)
    rest.join()
    check_all(alive, columns, arguments, kills=3)


def test_kafka_goes_on_after_what_the_group_has_committed(kafka):
    producer, brokers = kafka
    produced(producer, "parts", [{"t": k} for k in range(20)], partition=0)
    produced(producer, "parts", [{"t": 100 + k} for k in range(20)], partition=1)
    source = KafkaSource(brokers, "parts", "one")
    batch = source.read(13, 5.0)
    while not batch.rows:
        batch = source.read(13, 5.0)
    source.commit(batch.position)
    source.close()
    source = KafkaSource(brokers, "parts", "one")
    rows = read_all(source)
    source.close()
    keys = [row.key for row in batch.rows + rows]
    assert len(keys) == len(set(keys)) == 40
    for group, more, count in (("one", {}, 0), ("two", {}, 40), ("one", {"from_start": True}, 40)):
        source = KafkaSource(brokers, "parts", group, **more)
        assert len(read_all(source)) == count
        source.close()


def test_kafka_that_is_not_there_is_one_line(monkeypatch):
    monkeypatch.setattr("pintgn.feed.kafka.TIMEOUT", 0.5)
    with pytest.raises(BadFile, match="Kafka:"):
        KafkaSource("127.0.0.1:1", "x", "g")
    with pytest.raises(BadInput, match="No such configuration property"):
        KafkaSource("127.0.0.1:1", "x", "g", {"no.such.setting": "1"})


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres():
    import psycopg

    with postgres_server("secret") as port:
        address = f"postgresql://ann:secret@127.0.0.1:{port}/postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("create table orders (id bigserial primary key, src text, dst text, t bigint)")
        yield address


def test_postgresql_killed_again_and_again_every_row_arrives_once(alive, columns, postgres, tmp_path):
    import psycopg

    events = as_events(columns, TRAINED, len(columns["t"]))
    with psycopg.connect(postgres, autocommit=True) as connection:

        def insert(k):
            values = [events[k][name] for name in ("src", "dst", "t")]
            connection.execute("insert into orders (src, dst, t) values (%s, %s, %s)", values)

        rest = slowly(len(events), insert)
        arguments = [f"{postgres}#orders", alive.address, "--increasing", "id", "--bookmark", tmp_path / "mark"]
        arguments += ["--batch", "30"]
        killed_often(arguments, 4, seed=0, patience=0.8)
        rest.join()
    told = check_all(alive, columns, arguments, kills=3)
    assert told["position"] == len(events)
    assert "secret" not in (tmp_path / "mark").read_text() + json.dumps(told)


def test_a_row_that_is_committed_late_is_not_passed_over(postgres, tmp_path):
    """A transaction that has drawn the number 2 commits after the one that has drawn 3."""
    import psycopg

    with psycopg.connect(postgres) as first, psycopg.connect(postgres, autocommit=True) as second:
        second.execute("create table slow (id bigserial primary key, src text, dst text, t bigint)")
        second.execute("insert into slow (src) values ('one')")
        first.execute("insert into slow (src) values ('two')")
        second.execute("insert into slow (src) values ('three')")
        source = PostgresSource(postgres, "slow", "id", Bookmark(tmp_path / "mark", "x", "y"))
        rows = source.read(10, 0.0).rows
        assert [row.values["src"] for row in rows] == ["one"]
        assert source.read(10, 0.0).rows == []
        first.commit()
        rows += source.read(10, 0.0).rows
        assert [(row.key, row.values["src"]) for row in rows] == [
            ("slow:1", "one"),
            ("slow:2", "two"),
            ("slow:3", "three"),
        ]
        source.close()


def test_a_query_a_view_and_a_reconnection(postgres, tmp_path):
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("create table raw (id int, at timestamptz, price numeric, who uuid)")
        connection.execute("create view shown as select * from raw")
        connection.execute(
            "insert into raw select k, timestamptz '2024-01-31 12:00Z' + k * interval '1 s', k / 2.0, "
            "'00000000-0000-0000-0000-000000000001' from generate_series(1, 5) k"
        )
        for number, table in enumerate(("raw", "public.raw", "shown", "select *, id * 2 as twice from raw")):
            source = PostgresSource(postgres, table, "id", Bookmark(tmp_path / f"mark{number}", "x", "y"))
            rows = source.read(3, 0.0).rows
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
                "and backend_type = 'client backend'"
            )
            while len(rows) < 5:
                rows += source.read(3, 0.0).rows
            assert [row.values["id"] for row in rows] == [1, 2, 3, 4, 5]
            assert rows[0].values["price"] == 0.5
            assert rows[0].values["who"] == "00000000-0000-0000-0000-000000000001"
            assert rows[0].values["at"].startswith("2024-01-31T21:00:01+09:00")
            source.close()
        bookmark = Bookmark(tmp_path / "mark", "x", "y")
        with pytest.raises(BadInput, match="no table 'nowhere'"):
            PostgresSource(postgres, "nowhere", "id", bookmark)
        source = PostgresSource(postgres, "raw", "nothing", bookmark)
        with pytest.raises(BadInput, match="PostgreSQL refuses 'raw'"):
            source.read(3, 0.0)
        source.close()
    with pytest.raises(BadFile, match="cannot connect to postgresql://ann@127.0.0.1"):
        PostgresSource(postgres.replace("secret", "wrong"), "raw", "id", bookmark)
