# Functions of the lanes that execute a study elsewhere. Source it. It uses $binary, the program, and $shared, the shared store.

fail() { echo "FAILED: $*" >&2; exit 1; }

# Waits until a command succeeds: SECONDS WHAT COMMAND...
within() {
    local limit=$1 what=$2
    shift 2
    for _ in $(seq $((limit * 5))); do
        if "$@"; then return 0; fi
        sleep 0.2
    done
    echo "FAILED: no $what within $limit s" >&2
    return 1
}

# Starts a run in the background, with its process in $coordinator and its output in run.log.
start_run() {
    "$binary" run experiment.yaml --trust --remote "$shared" "$@" >> run.log 2>&1 &
    coordinator=$!
}

# Waits for the run, and sets $code to its exit code.
end_run() {
    code=0
    wait "$coordinator" || code=$?
    coordinator=
}

# Prints the number of complete load records in the shared store, and the number of their cells.
measured() {
    python3 - "$shared" <<'PYTHON'
import glob, json, os, sys, urllib.request

def in_bucket(shared):
    """Yields the documents of a bucket, through the server's own lists."""
    root = os.environ["S3_FILER"] + shared.removeprefix("s3://lab")
    def get(path):
        request = urllib.request.Request(root + path, headers={"Accept": "application/json"})
        try:
            return json.load(urllib.request.urlopen(request))
        except urllib.error.HTTPError:
            return {}
    def names(path):
        entries = get(path + "?limit=10000").get("Entries") or []
        return [entry["FullPath"].rsplit("/", 1)[1] for entry in entries]
    for run in names("/jobs/"):
        for name in names(f"/jobs/{run}/done/"):
            yield get(f"/jobs/{run}/done/{name}")

def in_folder(shared):
    for file in glob.glob(shared + "/jobs/*/done/*"):
        yield json.load(open(file))

records, cells = set(), set()
documents = in_bucket if sys.argv[1].startswith("s3:") else in_folder
for done in filter(None, documents(sys.argv[1])):
    if done["stage"] == "load":
        records.add(done["record"])
        cells.add(done["coordinates"])
print(len(records), len(cells))
PYTHON
}
measured_at_least() { [ "$(measured | cut -d' ' -f2)" -ge "$1" ]; }

ledger() { "$binary" status experiment.yaml --cells; }
said() { grep -q "$1" run.log || { cat run.log; fail "the run did not say: $1"; }; }

# Prints the trail of a study: EXPERIMENT [OPTIONS]...
trail() { "$binary" run "$1" --trust --json "${@:2}" | python3 -c 'import json, sys; print(json.load(sys.stdin)["trail"])'; }

# Makes a project with the study $study in Kubernetes, with $image and $secrets: NAME LAUNCHES CLIENTS [MORE SETTINGS]
project_in_kubernetes() {
    mkdir "$folder/$1"
    cd "$folder/$1"
    cp "$study/prompts.jsonl" .
    shared=$folder/$1-shared
    [ -z "${S3:-}" ] || shared=s3://lab/$1
    local place="kubernetes: {image: \"$image\", time: \"\${time}\", at-once: 3, volumes: [{claim: shared, path: $folder}]$secrets${4:-}}"
    sed -e "s|slurm: {partition.*|$place|; /partition: {type/d" \
        -e "s/to: 16/to: $2/; s/clients: \[1, 2, 4\]/clients: $3/" "$study/experiment.yaml" > experiment.yaml
}
