"""`make bench`: every figure of the table, both sides in one run on one machine."""

import argparse
import logging

from benchmarks import equipment, growth, preserving, runs, stages, writing
from benchmarks.installation import installation
from benchmarks.table import show


def main() -> None:
    logging.disable(logging.INFO)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument(
        "--only",
        default="",
        help="sections to run: writing, latency, log, stream, lists, stages, start, equipment, backup, runs",
    )
    given = parser.parse_args()
    wanted = set(filter(None, given.only.split(",")))

    def chosen(section: str) -> bool:
        return not wanted or section in wanted

    quick: bool = given.quick
    if chosen("stages"):
        show("Without a database", stages.overhead())
    if chosen("start"):
        show("Starting", stages.starting())
    if chosen("latency"):
        with installation() as place:
            show(
                "Latency",
                [
                    *writing.latency(place, 200 if quick else 2000),
                    *writing.freshness(place, 20 if quick else 300),
                ],
            )
    if chosen("writing"):
        with installation() as place:
            show("Commands over HTTP, projections running", writing.throughput(place, 1 if quick else 4))
    if chosen("stream"):
        with installation() as place:
            show("Stream length", growth.stream_length(place, (10, 1000, 10_000)))
    if chosen("log"):
        with installation() as place:
            show("Log size", growth.log_size(place, (100, 2_000) if quick else (100, 10_000, 1_000_000)))
            rows = 2_000 if quick else 1_000_000
            show("Reading", growth.reading(place, rows))
    if chosen("lists"):
        with installation() as place:
            with place.serving():
                pass
            show("Projections", growth.projection(place, 2_000 if quick else 100_000))
    if chosen("equipment"):
        with installation() as place:
            show("Equipment", equipment.bench(place, *((200, 2_000) if quick else (10_000, 1_000_000))))
    if chosen("backup"):
        with installation() as place:
            show("Backup and restore", preserving.bench(place, 2_000 if quick else 200_000))
            show("Epochs", preserving.epochs(place, 3 if quick else 150))
    if chosen("runs"):
        with installation() as place:
            show("Runs", runs.bench(place, *((20, 4, 100_000) if quick else (200, 50, 10_000_000))))


main()
