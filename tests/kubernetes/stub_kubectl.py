#!/usr/bin/env python3
"""A stub of kubectl for tests: neither kubectl nor Kubernetes. It keeps Jobs in the folder $KUBECTL_STUB and executes them at once.

    modes    a line for each Job to come: `oom` (its pod ends as OOMKilled without executing anything), `lost` (its node is lost),
             `image` (its image has no valid name), `refuse`; else it runs
    hold     while this file exists, pods stay Pending, because no node suits them
    silent   the API server does not answer that many more times
    forgets  while this file exists, lists are empty
    asked    a line for each `kubectl create`
    all      a line for each command
"""

import json, os, subprocess, sys, time
from pathlib import Path

folder = Path(os.environ["KUBECTL_STUB"])
words = [word for word in sys.argv[1:] if not word.startswith("-")]
options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
jobs = folder / "jobs"
jobs.mkdir(exist_ok=True)
with open(folder / "all", "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\n")
T = "2026-11-23T10:00:00Z"


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(1)


def first_line(name):
    file = folder / name
    lines = file.read_text().splitlines() if file.exists() else []
    if lines:
        file.write_text("".join(line + "\n" for line in lines[1:]))
    return lines[0] if lines else ""


def run(place, manifest):
    """Executes the container of a Job in a process of its own, and notes how it ended."""
    if os.fork():
        return
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    while (folder / "hold").exists():
        time.sleep(0.1)
    if not place.exists():
        os._exit(0)
    pod = manifest["spec"]["template"]["spec"]
    node = pod.get("nodeSelector", {}).get("kubernetes.io/hostname", "node1")
    fields = {"metadata.name": place.name + "-pod", "metadata.uid": place.name, "spec.nodeName": node}
    container = pod["containers"][0]
    env = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    for variable in container["env"]:
        of_pod = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        env[variable["name"]] = fields[of_pod] if of_pod else variable["value"]
    (place / "state").write_text("Running")
    with open(place / "log", "ab") as log:
        code = subprocess.call(container["command"], env=env, stdout=log, stderr=log)
    if place.exists() and (place / "state").read_text() == "Running":
        (place / "state").write_text("Succeeded" if code == 0 else f"Failed {code}")
    os._exit(0)


def items(place):
    manifest = json.loads((place / "manifest").read_text())
    metadata = manifest["metadata"] | {"creationTimestamp": T, "namespace": "default"}
    spec = manifest["spec"]["template"]["spec"]
    node = spec.get("nodeSelector", {}).get("kubernetes.io/hostname", "node1")
    state = (place / "state").read_text()
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": manifest["spec"], "status": {"active": 1}}
    status = {"phase": state.split()[0]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata | {"name": place.name + "-pod"},
           "spec": spec | {"nodeName": node}, "status": status}
    ended = {"startedAt": T, "finishedAt": "2026-11-23T10:00:07Z"}
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the limit"}
    container = {"name": spec["containers"][0]["name"], "state": {}}
    if state == "Pending":
        status["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                 "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}]
        pod["spec"].pop("nodeName")
    elif state == "Running":
        container["state"] = {"running": {"startedAt": T}}
    elif state == "Succeeded":
        job["status"] = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
        container["state"] = {"terminated": ended | {"exitCode": 0, "reason": "Completed"}}
    elif state == "image":
        status["phase"] = "Pending"
        container["state"] = {"waiting": {"reason": "InvalidImageName", "message": "couldn't parse image name"}}
    else:
        job["status"] = {"conditions": [failed], "failed": 1}
        status["phase"] = "Failed"
        if state == "lost":
            status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
                                     "message": "Taint manager: deleting due to NoExecute taint"}]
        else:
            code = 137 if state == "oom" else int(state.split()[1])
            reason = "OOMKilled" if state == "oom" else "Error"
            container["state"] = {"terminated": ended | {"exitCode": code, "reason": reason}}
    if state != "Pending":
        status["containerStatuses"] = [container]
    return [job, pod]


if (folder / "silent").exists() and int((folder / "silent").read_text()) > 0:
    (folder / "silent").write_text(str(int((folder / "silent").read_text()) - 1))
    fail("The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?")

match words[0]:
    case "create":
        manifest = json.load(sys.stdin)
        name = manifest["metadata"]["name"]
        mode = first_line("modes")
        with open(folder / "asked", "a") as file:
            file.write(json.dumps(manifest) + "\n")
        if mode == "refuse":
            fail('Error from server (Forbidden): error when creating "STDIN": jobs.batch is forbidden: exceeded quota: gpus')
        place = jobs / name
        if place.exists():
            fail(f'Error from server (AlreadyExists): error when creating "STDIN": jobs.batch "{name}" already exists')
        place.mkdir()
        (place / "manifest").write_text(json.dumps(manifest))
        (place / "log").write_text("memory cgroup out of memory\n" if mode == "oom" else "")
        (place / "state").write_text(mode or "Pending")
        if not mode:
            run(place, manifest)
        print(f"job.batch/{name}")
    case "get":
        run_name = options["selector"].partition("=")[2]
        places = [] if (folder / "forgets").exists() else sorted(jobs.glob(f"benchtrail-{run_name}-*"))
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": [i for place in places for i in items(place)]}))
    case "delete":
        for name in words[2:]:
            if (jobs / name).exists():
                (jobs / name).rename(folder / f"deleted-{name}")
                print(f'job.batch "{name}" deleted')
    case "logs":
        name = words[1].removesuffix("-pod").removeprefix("job/")
        print((jobs / name / "log").read_text(), end="")
