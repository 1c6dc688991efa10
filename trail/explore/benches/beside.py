#!/usr/bin/env python3
"""Measures whether a page that follows a run disturbs its measurements.

    python3 trail/explore/benches/beside.py BINARY [ROUNDS]

In each round a calibration of the load generator runs once under each condition, in random order: no explorer; an
explorer with a client of its live view on another machine (the event stream, and the list of studies once a second);
and, if `chromium` is installed, the live view in a browser on this machine. Prints the error of the load generator
relative to the reference server's log under each condition, and the explorer's activity: requests, bytes sent, bytes
read, and processor time. Needs a release build and an otherwise idle machine.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

STUDY = """\
experiment: beside
title: The load generator beside an explorer
question: How large is the error of the load generator?
seed: 164
stages:
  instrument:
    kind: calibrate
    concurrency: [1, 16]
    rate: [50]
    gap: [10 ms]
    duration: 5 s
"""
ERRORS = [("ttft", "error_p50"), ("ttft", "error_p99"), ("stamp", "error_p50"), ("stamp", "error_p99")]


class Explorer:
    """A server of the project, and what it has done."""

    def __init__(self, binary: str, project: Path) -> None:
        self.process = subprocess.Popen(
            [binary, "explore", "--listen", "127.0.0.1:0"], cwd=project, stdout=subprocess.PIPE, text=True
        )
        self.url = self.process.stdout.readline().strip()
        self.questions = 0
        self.sent = 0

    def get(self, path: str) -> dict:
        body = urllib.request.urlopen(f"{self.url}api/v1/{path}").read()
        self.questions += 1
        self.sent += len(body)
        return json.loads(body)

    def follow(self, run: str, until: threading.Event) -> None:
        """Reads the events of a run as they come, and asks for the studies once a second, as a page does."""
        while not until.is_set():
            try:
                stream = urllib.request.urlopen(f"{self.url}api/v1/runs/{run}/events", timeout=2)
                break
            except OSError:
                time.sleep(0.05)
        else:
            return
        self.questions += 1
        asked = 0.0
        while not until.is_set():
            try:
                self.sent += len(stream.readline())
            except OSError:
                return
            if time.monotonic() - asked > 1:
                asked = time.monotonic()
                self.get("studies")

    def cost(self) -> tuple[float, int]:
        """Returns its processor time so far, s, and how many bytes it has read."""
        proc = Path(f"/proc/{self.process.pid}")
        fields = (proc / "stat").read_text().rsplit(")", 1)[1].split()
        read = int(re.search(r"rchar: (\d+)", (proc / "io").read_text())[1])
        return (int(fields[11]) + int(fields[12])) / 100, read

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def measure(binary: str, project: Path) -> dict[tuple[str, str], float]:
    """Calibrates anew and returns the largest error of each kind over the points."""
    subprocess.run(
        [binary, "run", "beside.yaml", "--quiet", "--fresh", "instrument"], cwd=project, check=True, stdout=subprocess.DEVNULL
    )
    explorer = Explorer(binary, project)
    table = explorer.get("studies/beside/tables/instrument.calibration")
    explorer.end()
    columns = {column["name"]: column["values"] for column in table["columns"]}
    rows = range(len(columns["metric"]))
    of = lambda metric, column: [columns[column][i] for i in rows if columns["metric"][i] == metric]  # noqa: E731
    return {(metric, column): max(v for v in of(metric, column) if v is not None) for metric, column in ERRORS}


def main() -> None:
    binary = str(Path(sys.argv[1]).resolve())
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    browser = shutil.which("chromium")
    conditions = ["alone", "followed", *(["page"] if browser else [])]
    found: dict[str, list[dict]] = {condition: [] for condition in conditions}
    costs: list[tuple[int, int, float, int, float]] = []
    shuffled = random.Random(164)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / "beside.yaml").write_text(STUDY)
        (project / ".benchtrail").mkdir()
        measure(binary, project)
        for _ in range(rounds):
            for condition in shuffled.sample(conditions, len(conditions)):
                if condition == "alone":
                    found[condition].append(measure(binary, project))
                    continue
                explorer = Explorer(binary, project)
                over = threading.Event()
                helper = None
                page = None
                begun = time.monotonic()
                if condition == "followed":
                    helper = threading.Thread(target=explorer.follow, args=("beside", over))
                    helper.start()
                else:
                    page = subprocess.Popen(
                        [browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
                         "--remote-debugging-port=0", f"{explorer.url}#/run/beside"],
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    )
                    time.sleep(3)
                before = explorer.cost()
                found[condition].append(measure(binary, project))
                after = explorer.cost()
                over.set()
                if helper:
                    helper.join()
                    costs.append((explorer.questions, explorer.sent, after[0] - before[0], after[1] - before[1], time.monotonic() - begun))
                if page:
                    page.terminate()
                    page.wait()
                explorer.end()
    print(f"{rounds} rounds; the largest error over the points, ms: median over rounds (least to largest)")
    for metric, column in ERRORS:
        cells = []
        for condition in conditions:
            values = [round_[(metric, column)] for round_ in found[condition]]
            cells.append(f"{condition} {statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})")
        print(f"  {metric} {column}: {'; '.join(cells)}")
    for column in ERRORS:
        differences = [b[column] - a[column] for a, b in zip(found["alone"], found["followed"], strict=True)]
        print(f"  {column[0]} {column[1]}, followed − alone, by round: {', '.join(f'{d:+.3f}' for d in differences)}")
    questions, sent, cpu, read, seconds = (statistics.median(values) for values in zip(*costs, strict=True))
    print(f"  the followed explorer, a run of {seconds:.0f} s: {questions:.0f} questions, {sent / 1024:.0f} KiB sent, {read / 1024:.0f} KiB read, {cpu:.2f} s of processor time")


if __name__ == "__main__":
    main()
