"""Reads Deputize's events from Kafka and checks each by its published schema.

    pip install confluent-kafka jsonschema
    python consumer.py <folder with the schemas> <brokers> <group> <topic>...

Prints a line of JSON for each event. TLS and SASL are further settings of librdkafka in `Consumer`.
"""

import json
import sys
from pathlib import Path

from confluent_kafka import Consumer
from jsonschema import Draft202012Validator


def read_schemas(folder):
    """Returns the validators of a record's value and headers for each kind of event."""
    checks = {}
    for file in Path(folder).glob("*.schema.json"):
        schema = json.loads(file.read_text("utf-8"))
        headers = schema.get("$defs", {}).get("headers")
        if headers is not None:
            kind = file.name.removesuffix(".schema.json")
            checks[kind] = Draft202012Validator(schema), Draft202012Validator(headers)
    return checks


def main(folder, brokers, group, *topics):
    checks = read_schemas(folder)
    # In production, store these IDs with the events, in the same transaction.
    seen = set()
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(list(topics))
    while True:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            print(message.error(), file=sys.stderr)
            continue
        headers = {name: value.decode() for name, value in message.headers()}
        kind, event_id = headers["ce_type"], headers["ce_id"]
        # New kinds of events may be added, and Kafka may deliver a record twice.
        if kind in checks and event_id not in seen:
            event = json.loads(message.value())
            of_value, of_headers = checks[kind]
            of_value.validate(event)
            of_headers.validate(headers)
            seen.add(event_id)
            line = {"kind": kind, "id": event_id, "of": headers["ce_subject"], "event": event}
            print(json.dumps(line, ensure_ascii=False), flush=True)
        consumer.commit(message, asynchronous=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
