#!/usr/bin/env python3
"""Compares a report of the operator database with the bar that the project holds itself to.

usage: conformance_bar.py REPORT.json
"""
import collections
import json
import sys

FLOAT32_BAR, OTHER_BAR, OPERATOR_BAR = 95.0, 90.0, 80.0


def percent(counts):
    total = sum(counts.values())
    return 100.0 * counts["pass"] / total if total else 100.0


def main():
    with open(sys.argv[1]) as f:
        report = json.load(f)
    core = {row["op"] for row in report["core"]["rows"]}
    by_dtype = collections.defaultdict(collections.Counter)
    for result in report["results"]:
        if any(kind in core for kind in result["primary"]):
            by_dtype[result["dtype"]][result["status"]] += 1
    failed = []
    for dtype, counts in sorted(by_dtype.items()):
        bar = FLOAT32_BAR if dtype == "float32" else OTHER_BAR
        print("core operators, %-9s %6.2f %% of %d cases (bar %.0f %%)" % (dtype, percent(counts), sum(counts.values()), bar))
        if percent(counts) < bar:
            failed.append(dtype)
    for row in report["core"]["rows"]:
        if row["percent"] is not None and row["percent"] < OPERATOR_BAR:
            print("%s: %.1f %% (bar %.0f %%)" % (row["op"], row["percent"], OPERATOR_BAR))
            failed.append(row["op"])
    for status in ("crash", "timeout", "usage"):
        if report["total"][status]:
            print("%d cases end in %s" % (report["total"][status], status))
            failed.append(status)
    print("all operators: %d of %d cases pass" % (report["total"]["pass"], report["cases"]))
    return 1 if failed else 0


sys.exit(main())
