"""Data for the pipelines of this folder: orders, some sent twice and some bad, customers, and lines of text.

    python examples/orders.py [HOST:PORT]

What it writes is made up, the same each time but for the hour.
"""

from __future__ import annotations

import json
import random
import sys
from datetime import UTC, datetime, timedelta

import tidelog

ORDERS = 1000
SPAN = timedelta(minutes=30)
CITIES = ("Brest", "Leith", "Vigo", "Narvik")
NAMES = ("Ada", "Bo", "Cleo", "Dag", "Eva")
LINES = ("the tide comes", "The tide goes!", "and comes again")


def main(servers: str) -> None:
    chance = random.Random(1)
    begin = datetime.now(UTC) - SPAN
    sent = 0
    with tidelog.Producer(bootstrap_servers=servers) as producer:
        for number, name in enumerate(NAMES):
            customer = {"customer_id": f"c{number}", "name": name}
            producer.send("customers", json.dumps(customer).encode(), customer["customer_id"].encode())
        for line in LINES:
            producer.send("lines", line.encode())
        for number in range(ORDERS):
            order = {
                "order_id": f"o{number}",
                "customer_id": f"c{chance.randrange(len(NAMES))}",
                "city": chance.choice(CITIES),
                # One in fifty is wrong.
                "amount": round(chance.uniform(1, 200), 2) if number % 50 else -1.0,
                "at": (begin + SPAN * number / ORDERS).isoformat(timespec="milliseconds"),
            }
            # One in twenty is sent again.
            for _ in range(1 if number % 20 else 2):
                producer.send("orders", json.dumps(order).encode(), order["order_id"].encode())
                sent += 1
        producer.send("orders", b"no order at all")
    print(f"Wrote {sent + 1} orders, {len(NAMES)} customers and {len(LINES)} lines to {servers}.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
