"""Compares the verdicts of several executions of one study: `verdicts.py BINARY FOLDER EXPERIMENT`.

Every folder below FOLDER is a project in which EXPERIMENT was run. A table of `results` with the columns `metric` and
`verdict` is a comparison. The tables whose names begin with `control` compare an A/A arm, in which nothing differs. Gates
that failed are counted too, with one of their observations.
"""

import collections
import csv
import io
import json
import pathlib
import subprocess
import sys


def ask(binary, project, experiment, *more):
    """Returns the output of `sql`."""
    command = [binary, "sql", experiment, *more]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=True).stdout


def comparisons(binary, project, experiment):
    """Returns (table, comparison) -> (verdict, higher side, effect)."""
    found = {}
    for line in json.loads(ask(binary, project, experiment, "--json")):
        columns = line["columns"]
        if not {"metric", "verdict", "effect"} <= set(columns):
            continue
        keys = columns[: columns.index("metric") + 1]
        text = ask(binary, project, experiment, f'select * from "{line["table"]}"', "--csv")
        for row in csv.DictReader(io.StringIO(text)):
            place = (line["table"], ", ".join(row[key] for key in keys))
            found[place] = (row["verdict"], row["higher"], float(row["effect"] or "nan"))
    return found


def gates(binary, project, experiment):
    """Returns gate -> (judgements, failures, an observation of a failure) of the stage `checks`."""
    query = """select gate, sum(outcome <> 'not judged') as judged, sum(outcome = 'fail') as failed,
        max(case when outcome = 'fail' then coalesce(stage, '') || ' ' || coalesce(cell, '') || ': ' || observed end) as seen
        from "checks.gates" group by gate"""
    rows = csv.DictReader(io.StringIO(ask(binary, project, experiment, query, "--csv")))
    return {row["gate"]: (int(row["judged"]), int(row["failed"]), row["seen"]) for row in rows}


def main(binary, folder, experiment):
    verdicts, runs = collections.defaultdict(list), 0
    failed = collections.defaultdict(lambda: [0, 0, 0, ""])
    for project in sorted(p for p in pathlib.Path(folder).iterdir() if p.is_dir()):
        try:
            found = comparisons(binary, project, experiment)
        except subprocess.CalledProcessError as error:
            print(f"{project.name}: {error.stderr.strip()}")
            continue
        if not found:
            print(f"{project.name}: the run did not end, so it has no comparison")
            continue
        runs += 1
        for gate, (judged, failures, seen) in gates(binary, project, experiment).items():
            sums = failed[gate]
            sums[0] += judged
            sums[1] += failures
            sums[2] += failures > 0
            sums[3] = seen or sums[3]
        for place, verdict in found.items():
            verdicts[place].append(verdict)
    opposite, arms, false = [], 0, 0
    print(f"{runs} runs\n\n| table | compared | verdicts | effects |\n|---|---|---|---|")
    for (table, compared), all_runs in sorted(verdicts.items()):
        words = collections.Counter(f"{v}, {h} higher" if v == "different" else v for v, h, _ in all_runs)
        sides = {higher for verdict, higher, _ in all_runs if verdict == "different"}
        if len(sides) > 1:
            opposite.append((table, compared))
        if table.split(".")[-1].startswith("control"):
            arms += len(all_runs)
            false += sum(verdict == "different" for verdict, *_ in all_runs)
        effects = sorted(effect for *_, effect in all_runs)
        said = "; ".join(f"{n} {word}" for word, n in words.most_common())
        print(f"| {table} | {compared} | {said} | {effects[0]:.2f} to {effects[-1]:.2f} |")
    print("\n| gate | judged | failed | runs with a failure | one of them |\n|---|---:|---:|---:|---|")
    for gate, (judged, failures, with_one, seen) in sorted(failed.items()):
        if failures:
            print(f"| {gate} | {judged} | {failures} | {with_one} of {runs} | {seen.strip()} |")
    print(f"\nopposite verdicts: {len(opposite)} of {len(verdicts)} comparisons {opposite or ''}")
    print(f"A/A arms called different: {false} of {arms}")
    return 0 if runs and not opposite and false * 20 <= arms else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
