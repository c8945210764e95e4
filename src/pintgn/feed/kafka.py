"""A Kafka topic as a source, its offsets committed to the group."""

from __future__ import annotations

import time
from typing import Any

from pintgn.errors import BadFile, BadInput
from pintgn.feed.stream_source import Batch, Row, Source, json_row, short_name
from pintgn.packages import need

TIMEOUT = 15.0
"""Seconds that a broker has to answer."""
LOOK = 60.0
"""Seconds between two looks for new partitions."""


class KafkaSource(Source):
    """Every partition of a topic, from what the group has committed on.

    The feeder reads all partitions by itself instead of joining the group, so a restart does not wait until the broker
    has given up the process that was killed.

    Args:
        brokers: host:port, several by commas.
        topic: its messages are JSON objects.
        group: under whose name offsets are committed.
        settings: anything else that librdkafka knows, such as security.protocol.
        from_start: read from the first message again.
    """

    def __init__(
        self, brokers: str, topic: str, group: str, settings: dict[str, str] | None = None, from_start: bool = False
    ):
        self.kafka = need("confluent_kafka", "confluent-kafka", extra="kafka")
        self.topic, self.name, self.from_start = topic, short_name(topic), from_start
        config: dict[str, Any] = {"bootstrap.servers": brokers, "group.id": group} | (settings or {})
        config |= {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
        try:
            self.consumer = self.kafka.Consumer(config, logger=_Quiet())
        except self.kafka.KafkaException as error:
            raise BadInput(f"Kafka: {_error_message(error)}.") from None
        self.next: dict[int, int] = {}  # of each partition, the offset that comes next
        self.ended: set[int] = set()
        try:
            self._assign()
        except BaseException:
            self.consumer.close()
            raise

    def _assign(self) -> None:
        """Take every partition that there is."""
        partition = self.kafka.TopicPartition
        try:
            found = self.consumer.list_topics(self.topic, timeout=TIMEOUT).topics[self.topic]
            if found.error is not None or not found.partitions:
                raise BadInput(f"Kafka: there is no topic {self.topic!r} ({found.error}).")
            new = [partition(self.topic, number) for number in sorted(set(found.partitions) - set(self.next))]
            for one in self.consumer.committed(new, timeout=TIMEOUT) if new else []:
                self.next[one.partition] = 0 if self.from_start or one.offset < 0 else one.offset
        except self.kafka.KafkaException as error:
            raise BadFile(f"Kafka: {_error_message(error)}.") from None
        if new:
            self.consumer.assign(
                [
                    partition(self.topic, number, offset or self.kafka.OFFSET_BEGINNING)
                    for number, offset in self.next.items()
                ]
            )
            self.ended.clear()
        self.looked = time.monotonic()

    def read(self, most: int, wait: float) -> Batch:
        if time.monotonic() - self.looked > LOOK:
            self._assign()
        rows: list[Row] = []
        for message in self.consumer.consume(most, wait):
            error, number = message.error(), message.partition()
            if error is None:
                rows.append(json_row(f"{self.name}/{number}:{message.offset()}", message.value()))
                self.next[number] = message.offset() + 1
                self.ended.discard(number)
            elif error.code() == self.kafka.KafkaError._PARTITION_EOF:
                self.ended.add(number)
            elif error.fatal() or (not error.retriable() and error.code() >= 0):
                raise BadFile(f"Kafka: {error.str()}.")
        return Batch(rows, dict(self.next), end=not rows and self.ended >= set(self.next))

    def commit(self, position: Any) -> None:
        offsets = [self.kafka.TopicPartition(self.topic, number, offset) for number, offset in position.items()]
        try:
            self.consumer.commit(offsets=offsets, asynchronous=False)
        except self.kafka.KafkaException:  # the keys make up for it, and the next commit says as much
            return

    def close(self) -> None:
        self.consumer.close()


class _Quiet:
    """Silences librdkafka's log of lost connections, which it retries; real failures arrive as errors."""

    level = 0

    def log(self, *_: Any) -> None:
        pass


def _error_message(error: Any) -> str:
    return error.args[0].str().rstrip(".")
