"""`python -m bench.spark`: our source and sink beside Spark's Kafka connector, one topic, local[2], the no-op sink.

Needs what `make spark` sets up. Prints the figures, keeps them in bench/results/spark.json and writes their section of
docs/benchmarks.md. A part of it, `--only 100` or `--only latency`, replaces those figures and leaves the others.
"""

from __future__ import annotations

import argparse
import shutil
import sys

from bench import PROJECT, results
from bench.spark.figures import KEPT, PARTS
from bench.spark.report import document, table
from bench.spark.running import run_part

ROUNDS = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(PARTS), help="a part; repeatable")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often everything is measured")
    parser.add_argument("--document", action="store_true", help="write the document again from what is kept")
    given = parser.parse_args()
    known = results.load(KEPT)
    if not given.document:
        chosen = given.only or list(PARTS)
        folder = PROJECT / ".cache" / "bench-spark"
        for name in chosen:
            folder.mkdir(parents=True, exist_ok=True)
            machine = results.machine(folder)
            try:
                samples = run_part(name, given.rounds, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            rounds = max(len(values) for servers in samples.values() for values in servers.values())
            taken = results.Taken(results.now(), "full", rounds, machine, samples)
            # Others may have been measured meanwhile.
            known = results.load(KEPT).with_run({name: taken}, [])
            results.save(known, KEPT)
            print("\n".join(table(known, [name])), flush=True)
    document(known)
    return 0


if __name__ == "__main__":
    sys.exit(main())
