#!/usr/bin/env python3
"""A stub of a Kubernetes control plane for tests: not Kubernetes.

It speaks enough of the REST API for a real kubectl (Jobs of batch/v1, pods and their logs), and "runs" a Job by starting the
command of its container as a process group on this machine. There are no containers and no isolation: images are names in a
list, Secrets are files, a volume is the same path here, and limits of memory and of processors do nothing.

    stub_api.py FOLDER [NODE...]     serves on a free port of 127.0.0.1 until it is terminated

FOLDER/kubeconfig    the configuration for kubectl, with a token that the stub demands
FOLDER/images        the images that exist, one in a line
FOLDER/bin           comes first on the search path of containers
FOLDER/secrets/NAME  a Secret: a JSON object of texts
FOLDER/pods/NAME     the output and the temporary files of a pod
FOLDER/created       a line for each Job that was created
FOLDER/quota         while it exists, no Job gets a pod

Faults are requests to it:

    POST /stub/oom?node=N         the pod of a node is killed: OOMKilled
    POST /stub/lose?node=N        a node with a pod loses its power; the pod is given up after a while
    POST /stub/preempt?node=N     the pod of a node must go for a more important one
    POST /stub/away?seconds=S     the API server refuses connections for a while
    POST /stub/cut?count=N        the next Jobs are created, but the answer is lost, and the next list does not show them
    POST /stub/expire?seconds=S   the token is refused for a while

If the Python package kubernetes-validate is installed, a manifest must match the schema of Kubernetes, unknown fields included.
"""

import base64, datetime, json, os, random, signal, ssl, string, subprocess, sys, threading, time, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

FOLDER = Path(sys.argv[1])
NODES = sys.argv[2:] or ["n1", "n2", "n3"]
NAMESPACES = {"default", "bench"}
TOKEN = "stub-" + uuid.uuid4().hex
# After so many seconds, a pod on a lost node is given up. A real cluster takes five minutes.
GIVEN_UP = 4

lock = threading.RLock()
jobs, pods, processes, events = {}, {}, {}, {}
lost, away_until, expired_until, cut, hidden = {}, 0.0, 0.0, 0, {}
preempted, killed = set(), set()


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Refused(Exception):
    def __init__(self, code, reason, message, details=None):
        super().__init__(message)
        self.status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                       "reason": reason, "details": details or {}, "code": code}


# What the control plane and the nodes do, in one step each tenth of a second.

def key(item):
    return item["metadata"]["namespace"], item["metadata"]["name"]


def condition(item, kind, reason="", message="", status="True"):
    conditions = item["status"].setdefault("conditions", [])
    conditions[:] = [c for c in conditions if c["type"] != kind]
    conditions.append({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now()})


def has(item, kind):
    return any(c["type"] == kind and c["status"] == "True" for c in item["status"].get("conditions", []))


def container_of(pod):
    return pod["spec"]["containers"][0]


def set_state(pod, state):
    container = container_of(pod)
    pod["status"]["containerStatuses"] = [{
        "name": container["name"], "image": container["image"], "imageID": "", "ready": "running" in state,
        "restartCount": 0, "lastState": {}, "state": state}]


def make_pod(job):
    namespace, name = key(job)
    template = job["spec"]["template"]
    suffix = "".join(random.choice(string.ascii_lowercase) for _ in range(5))
    labels = dict(template["metadata"].get("labels", {}))
    labels.update({"job-name": name, "batch.kubernetes.io/job-name": name, "controller-uid": job["metadata"]["uid"]})
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": json.loads(json.dumps(template["spec"])),
           "metadata": {"name": f"{name}-{suffix}", "namespace": namespace, "labels": labels, "uid": str(uuid.uuid4()),
                        "creationTimestamp": now(), "ownerReferences": [
                            {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"],
                             "controller": True, "blockOwnerDeletion": True}]},
           "status": {"phase": "Pending", "conditions": []}}
    pods[key(pod)] = pod
    job["status"].update({"active": 1, "startTime": now()})


def schedule(pod):
    wanted = pod["spec"].get("nodeSelector", {}).get("kubernetes.io/hostname")
    apart = "podAntiAffinity" in pod["spec"].get("affinity", {})
    busy = {p["spec"].get("nodeName") for p in pods.values() if p["status"]["phase"] in ("Pending", "Running")}
    free = [n for n in NODES if n not in lost and (not apart or n not in busy) and wanted in (None, n)]
    if not free:
        message = f"0/{len(NODES)} nodes are available: {len(NODES)} node(s) didn't match pod anti-affinity rules or the selector."
        condition(pod, "PodScheduled", "Unschedulable", message, "False")
        return
    pod["spec"]["nodeName"] = free[0]
    condition(pod, "PodScheduled")
    pod["status"]["startTime"] = now()
    pod["started"] = time.monotonic()
    set_state(pod, {"waiting": {"reason": "ContainerCreating"}})


def field(pod, path):
    value = pod
    for part in path.split("."):
        value = value[part]
    return value


def environment(pod, folder):
    path = f"{FOLDER}/bin:" + os.environ["PATH"]
    variables = {"PATH": path, "HOME": str(folder), "TMPDIR": str(folder / "tmp"), "HOSTNAME": pod["metadata"]["name"]}
    for source in container_of(pod).get("envFrom", []):
        file = FOLDER / "secrets" / source["secretRef"]["name"]
        if not file.exists():
            raise Refused(0, "CreateContainerConfigError", f'secret "{source["secretRef"]["name"]}" not found')
        variables.update(json.loads(file.read_text()))
    for variable in container_of(pod).get("env", []):
        of_pod = variable.get("valueFrom", {}).get("fieldRef")
        variables[variable["name"]] = field(pod, of_pod["fieldPath"]) if of_pod else variable["value"]
    return variables


def start(pod):
    container = container_of(pod)
    if container["image"] not in (FOLDER / "images").read_text().split():
        tries = pod["tries"] = pod.get("tries", 0) + 1
        if tries % 20 == 1:
            reason = "ErrImagePull" if tries % 40 == 1 else "ImagePullBackOff"
            set_state(pod, {"waiting": {"reason": reason, "message": f'failed to pull image "{container["image"]}": not found'}})
        return
    folder = FOLDER / "pods" / pod["metadata"]["name"]
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    try:
        variables = environment(pod, folder)
        with open(folder / "log", "ab") as log:
            process = subprocess.Popen(container["command"], env=variables, cwd=folder, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, start_new_session=True)
    except Refused as refused:
        set_state(pod, {"waiting": {"reason": refused.status["reason"], "message": str(refused)}})
        return
    except OSError as error:
        pod["status"]["phase"] = "Failed"
        message = f'exec: "{container["command"][0]}": {error.strerror}'
        set_state(pod, {"terminated": {"exitCode": 128, "reason": "StartError", "message": message, "startedAt": now(),
                                       "finishedAt": now()}})
        return
    processes[key(pod)] = process
    pod["status"]["phase"] = "Running"
    set_state(pod, {"running": {"startedAt": now()}})


def send(pod, number):
    process = processes.get(key(pod))
    if process is None:
        return
    for group in [process.pid] + children(process.pid):
        try:
            os.killpg(group, number) if number == signal.SIGKILL or group == process.pid else None
        except (ProcessLookupError, PermissionError):
            pass


def children(parent):
    """Returns the process groups below a process: an engine has a group of its own."""
    below, groups = {parent}, []
    table = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
                table.append((int(entry), int(fields[1]), int(fields[2])))
            except (OSError, IndexError):
                pass
    grown = True
    while grown:
        found = [(pid, group) for pid, up, group in table if up in below and pid not in below]
        below.update(pid for pid, _ in found)
        groups += [group for _, group in found]
        grown = bool(found)
    return sorted(set(groups) - {os.getpgrp()})


def watch(pod):
    """Looks at the process of a pod that runs."""
    process = processes[key(pod)]
    limit = pod["spec"].get("activeDeadlineSeconds")
    if limit and time.monotonic() - pod["started"] > limit and "late" not in pod:
        pod["late"] = True
        stop(pod)
    if "stop_by" in pod and time.monotonic() > pod["stop_by"]:
        send(pod, signal.SIGKILL)
    code = process.poll()
    if code is None or pod["spec"]["nodeName"] in lost:
        return
    running = pod["status"]["containerStatuses"][0]["state"]["running"]
    log = (FOLDER / "pods" / pod["metadata"]["name"] / "log").read_text(errors="replace")
    terminated = {"exitCode": code if code >= 0 else 128 - code, "reason": "Completed" if code == 0 else "Error",
                  "startedAt": running["startedAt"], "finishedAt": now()}
    if code != 0:
        terminated["message"] = log[-2048:]
    if key(pod) in killed:
        terminated.update({"exitCode": 137, "reason": "OOMKilled"})
    if "late" in pod:
        pod["status"].update({"reason": "DeadlineExceeded",
                              "message": "Pod was active on the node longer than the specified deadline"})
    if key(pod) in preempted:
        condition(pod, "DisruptionTarget", "PreemptionByScheduler", "preempting to accommodate a higher priority pod")
    set_state(pod, {"terminated": terminated})
    pod["status"]["phase"] = "Succeeded" if code == 0 and "late" not in pod else "Failed"
    del processes[key(pod)]


def stop(pod):
    grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
    pod["stop_by"] = time.monotonic() + grace
    send(pod, signal.SIGTERM)


def give_up(pod):
    """Gives up a pod on a lost node."""
    node = pod["spec"].get("nodeName")
    if node in lost and time.monotonic() - lost[node] > GIVEN_UP and pod["status"]["phase"] in ("Pending", "Running"):
        condition(pod, "DisruptionTarget", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
        pod["metadata"]["deletionTimestamp"] = now()
        pod["status"]["phase"] = "Failed"
        processes.pop(key(pod), None)


def settle(job):
    """Does what the controller of Jobs does."""
    if has(job, "Complete") or has(job, "Failed"):
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is not None and time.monotonic() - job["ended"] > ttl:
            delete_job(job)
        return
    mine = [p for p in pods.values() if p["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]]
    if not mine and "active" not in job["status"] and (FOLDER / "quota").exists():
        events[key(job)] = {"kind": "Event", "apiVersion": "v1", "metadata": {"name": key(job)[1], "namespace": key(job)[0]},
                            "involvedObject": {"kind": "Job", "name": key(job)[1]}, "reason": "FailedCreate",
                            "message": "Error creating: pods is forbidden: exceeded quota: gpus", "type": "Warning"}
        return
    if not mine and "active" not in job["status"]:
        make_pod(job)
        return
    if not mine or any(p["status"]["phase"] == "Failed" for p in mine):
        condition(job, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        job["status"].update({"active": 0, "failed": 1})
    elif any(p["status"]["phase"] == "Succeeded" for p in mine):
        condition(job, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        job["status"].update({"active": 0, "succeeded": 1, "completionTime": now()})
    job["ended"] = time.monotonic()


def delete_job(job):
    jobs.pop(key(job), None)
    for pod in pods.values():
        if pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]:
            delete_pod(pod)


def delete_pod(pod):
    if "deletionTimestamp" not in pod["metadata"]:
        grace = datetime.timedelta(seconds=pod["spec"].get("terminationGracePeriodSeconds", 30))
        at = datetime.datetime.now(datetime.timezone.utc) + grace
        pod["metadata"]["deletionTimestamp"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        stop(pod)


def step():
    for job in list(jobs.values()):
        settle(job)
    for pod in list(pods.values()):
        if key(pod) in processes:
            watch(pod)
        elif pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]:
            start(pod) if "nodeName" in pod["spec"] else schedule(pod)
        give_up(pod)
        if "deletionTimestamp" in pod["metadata"] and key(pod) not in processes:
            of_job = pod["metadata"]["ownerReferences"][0]
            if (pod["metadata"]["namespace"], of_job["name"]) not in jobs or pod["status"]["phase"] == "Pending":
                del pods[key(pod)]


def control():
    while True:
        with lock:
            step()
        time.sleep(0.1)


# What users ask.

def fault(name, query):
    global away_until, expired_until, cut
    at = {"node": query.get("node", [""])[0], "seconds": float(query.get("seconds", ["0"])[0])}
    on_node = [p for p in pods.values() if p["spec"].get("nodeName") == at["node"] and key(p) in processes]
    if name == "oom":
        killed.update(key(p) for p in on_node)
        [send(p, signal.SIGKILL) for p in on_node]
    elif name == "lose" and on_node:
        lost[at["node"]] = time.monotonic()
        [send(p, signal.SIGKILL) for p in on_node]
    elif name == "preempt":
        preempted.update(key(p) for p in on_node)
        [stop(p) for p in on_node]
    elif name == "away":
        away_until = time.monotonic() + at["seconds"]
    elif name == "expire":
        expired_until = time.monotonic() + at["seconds"]
    elif name == "cut":
        cut = int(query["count"][0])
    return {"pods": [p["metadata"]["name"] for p in on_node]}


def listed(items, query, kind, version):
    selector = query.get("labelSelector", [""])[0]
    pairs = [pair.replace("==", "=").split("=", 1) for pair in selector.split(",") if "=" in pair]
    found = []
    for item in items:
        labels = item["metadata"].get("labels", {})
        if all(labels.get(k) == v for k, v in pairs):
            if hidden.get(item["metadata"]["name"], 0) > 0:
                hidden[item["metadata"]["name"]] -= 1
                continue
            found.append(shown(item))
    return {"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": found}


def shown(item):
    return {k: v for k, v in item.items() if k in ("apiVersion", "kind", "metadata", "spec", "status")}


def create_job(namespace, manifest):
    global cut
    if namespace not in NAMESPACES:
        raise Refused(404, "NotFound", f'namespaces "{namespace}" not found', {"name": namespace, "kind": "namespaces"})
    if kubernetes_validate is not None:
        try:
            kubernetes_validate.validate(manifest, "1.31", strict=True)
        except kubernetes_validate.ValidationError as error:
            raise Refused(422, "Invalid", f"Job.batch is invalid: {error.message}") from error
    name = manifest["metadata"]["name"]
    if (namespace, name) in jobs:
        raise Refused(409, "AlreadyExists", f'jobs.batch "{name}" already exists', {"name": name, "group": "batch", "kind": "jobs"})
    uid = str(uuid.uuid4())
    manifest["metadata"].update({"namespace": namespace, "uid": uid, "creationTimestamp": now()})
    manifest["spec"]["selector"] = {"matchLabels": {"controller-uid": uid}}
    manifest["status"] = {}
    jobs[namespace, name] = manifest
    with open(FOLDER / "created", "a") as file:
        file.write(name + "\n")
    if cut > 0:
        cut -= 1
        hidden[name] = 1
        raise ConnectionAbortedError
    return shown(manifest)


def found(table, namespace, name, kind):
    if (namespace, name) not in table:
        raise Refused(404, "NotFound", f'{kind} "{name}" not found', {"name": name, "kind": kind})
    return table[namespace, name]


DISCOVERY = {
    "/version": {"major": "1", "minor": "31", "gitVersion": "v1.31.0-stub", "platform": "linux/amd64"},
    "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
        {"name": "batch", "versions": [{"groupVersion": "batch/v1", "version": "v1"}],
         "preferredVersion": {"groupVersion": "batch/v1", "version": "v1"}}]},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
        {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "shortNames": ["po"],
         "verbs": ["get", "list", "delete"]},
        {"name": "events", "singularName": "event", "namespaced": True, "kind": "Event", "verbs": ["list"]},
        {"name": "pods/log", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": ["get"]}]},
    "/apis/batch/v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "batch/v1", "resources": [
        {"name": "jobs", "singularName": "job", "namespaced": True, "kind": "Job",
         "verbs": ["create", "get", "list", "delete"]}]},
}


class API(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        with open(FOLDER / "requests", "a") as file:
            file.write(f"{now()} {self.command} {self.path} {words[1] if len(words) > 1 else ''}\n")

    def reply(self, code, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def answer(self):
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        parts = url.path.strip("/").split("/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if parts[0] == "stub":
            return self.reply(200, fault(parts[1], query))
        if time.monotonic() < expired_until or self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refused(401, "Unauthorized", "Unauthorized")
        if url.path in DISCOVERY:
            return self.reply(200, DISCOVERY[url.path])
        if url.path == "/openapi/v2":
            return self.reply(200, b"", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
        match (self.command, parts):
            case ("GET", ["apis", "batch", "v1", "namespaces", namespace, "jobs"]):
                mine = [j for j in jobs.values() if j["metadata"]["namespace"] == namespace]
                return self.reply(200, listed(mine, query, "JobList", "batch/v1"))
            case ("POST", ["apis", "batch", "v1", "namespaces", namespace, "jobs"]):
                return self.reply(201, create_job(namespace, json.loads(body)))
            case ("GET", ["apis", "batch", "v1", "namespaces", namespace, "jobs", name]):
                return self.reply(200, shown(found(jobs, namespace, name, "jobs.batch")))
            case ("DELETE", ["apis", "batch", "v1", "namespaces", namespace, "jobs", name]):
                job = found(jobs, namespace, name, "jobs.batch")
                delete_job(job)
                return self.reply(200, shown(job))
            case ("GET", ["api", "v1", "namespaces", namespace]) if namespace in NAMESPACES:
                return self.reply(200, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": namespace}})
            case ("GET", ["api", "v1", "namespaces", namespace, "pods"]):
                mine = [p for p in pods.values() if p["metadata"]["namespace"] == namespace]
                return self.reply(200, listed(mine, query, "PodList", "v1"))
            case ("GET", ["api", "v1", "namespaces", namespace, "events"]):
                return self.reply(200, {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": list(events.values())})
            case ("GET", ["api", "v1", "namespaces", namespace, "pods", name]):
                return self.reply(200, shown(found(pods, namespace, name, "pods")))
            case ("DELETE", ["api", "v1", "namespaces", namespace, "pods", name]):
                delete_pod(found(pods, namespace, name, "pods"))
                return self.reply(200, shown(pods[namespace, name]))
            case ("GET", ["api", "v1", "namespaces", namespace, "pods", name, "log"]):
                pod = found(pods, namespace, name, "pods")
                if pod["spec"].get("nodeName") in lost:
                    raise Refused(500, "InternalError", "dial tcp 10.0.0.9:10250: connect: no route to host")
                file = FOLDER / "pods" / name / "log"
                lines = (file.read_bytes() if file.exists() else b"").splitlines(keepends=True)
                tail = int(query.get("tailLines", ["-1"])[0])
                text = b"".join(lines if tail < 0 else lines[-tail:])
                return self.reply(200, text[: int(query.get("limitBytes", [len(text)])[0])], "text/plain")
        raise Refused(404, "NotFound", "the server could not find the requested resource")

    def handled(self):
        try:
            with lock:
                self.answer()
        except Refused as refused:
            self.reply(refused.status["code"], refused.status)
        except ConnectionAbortedError:
            self.close_connection = True
        except BrokenPipeError:
            pass

    do_GET = do_POST = do_DELETE = handled


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


def serve(port):
    server = Server(("127.0.0.1", port), API)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "certificate", FOLDER / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


def main():
    for folder in ("bin", "secrets", "pods"):
        (FOLDER / folder).mkdir(parents=True, exist_ok=True)
    (FOLDER / "images").touch()
    # Over a plain connection, kubectl sends no token.
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=stub",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", FOLDER / "key", "-out", FOLDER / "certificate"],
                   check=True, capture_output=True)
    certificate = base64.b64encode((FOLDER / "certificate").read_bytes()).decode()
    server = serve(0)
    port = server.server_address[1]
    configuration = {
        "apiVersion": "v1", "kind": "Config", "current-context": "stub",
        "clusters": [{"name": "stub", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": certificate}}],
        "users": [{"name": "stub", "user": {"token": TOKEN}}],
        "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub", "namespace": "bench"}}]}
    (FOLDER / "kubeconfig").write_text(json.dumps(configuration))
    threading.Thread(target=control, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            while time.monotonic() >= away_until:
                time.sleep(0.05)
            server.shutdown()
            thread.join()
            server.server_close()
            time.sleep(max(0.0, away_until - time.monotonic()))
            server = serve(port)
    finally:
        for pod in list(pods.values()):
            send(pod, signal.SIGKILL)
        os._exit(0)


main()
