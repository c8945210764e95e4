"""PostgreSQL for real, Kafka on librdkafka's mock cluster: each event once, whoever is killed."""

from __future__ import annotations

import json
import threading
import time

import pytest

from pintgn.errors import BadFile, BadInput
from pintgn.feed.kafka import KafkaSource
from pintgn.feed.postgres_table import PostgresSource
from pintgn.feed.stream_source import Bookmark
from tests.feed.helpers import fed, killed_often
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
    killed_often(arguments, 6, seed=0, patience=0.8)
    rest.join()
    check_all(alive, columns, arguments, kills=5)


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
        killed_often(arguments, 6, seed=0, patience=0.8)
        rest.join()
    told = check_all(alive, columns, arguments, kills=5)
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
