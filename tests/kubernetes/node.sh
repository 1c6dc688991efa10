# A real Kubernetes of one node on this machine, for tests/kubernetes/real: etcd, the API server, the controllers, the
# scheduler, a kubelet and containerd, each a process of this script. Source it as root, in a network namespace of your own.
#
#   cluster_start FOLDER   starts all; sets KUBECONFIG (an administrator's), and USER_KUBECONFIG (a user with the Role of the docs)
#   cluster_api_stop, cluster_api_start    the API server goes away and comes back
#   cluster_image NAME     makes the image NAME from the folder $ROOTFS, and prints its name with its digest
#   cluster_node_kill, cluster_kubelet_start    the node loses its power, and is back
#   cluster_stop           ends all, containers and mounts included

cluster_pids=()

# Starts a program in the background, with its log: NAME COMMAND...
cluster_daemon() {
    local name=$1
    shift
    "$@" >> "$CLUSTER/$name.log" 2>&1 &
    eval "cluster_$name=$!"
    cluster_pids+=($!)
}

# Writes a certificate that the cluster's authority signed: NAME SUBJECT [ALTERNATIVE NAMES]
cluster_certificate() {
    openssl req -newkey rsa:2048 -nodes -keyout "$CLUSTER/$1.key" -out "$CLUSTER/$1.csr" -subj "$2" 2> /dev/null
    openssl x509 -req -in "$CLUSTER/$1.csr" -CA "$CLUSTER/ca.crt" -CAkey "$CLUSTER/ca.key" -CAcreateserial -days 2 \
        -out "$CLUSTER/$1.crt" -extfile <(printf 'subjectAltName=%s' "${3:-DNS:$1}") 2> /dev/null
}

# Writes a kubectl configuration with a token: FILE TOKEN
cluster_kubeconfig() {
    cat > "$1" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:$CLUSTER_PORT", certificate-authority: $CLUSTER/ca.crt}}]
users: [{name: test, user: {token: $2}}]
contexts: [{name: test, context: {cluster: test, user: test, namespace: bench}}]
current-context: test
YAML
}

cluster_api_start() {
    cluster_daemon api kube-apiserver --etcd-servers="http://127.0.0.1:$CLUSTER_ETCD" --secure-port="$CLUSTER_PORT" \
        --bind-address=127.0.0.1 --endpoint-reconciler-type=none --cert-dir="$CLUSTER" \
        --tls-cert-file="$CLUSTER/api.crt" --tls-private-key-file="$CLUSTER/api.key" --client-ca-file="$CLUSTER/ca.crt" \
        --kubelet-client-certificate="$CLUSTER/client.crt" --kubelet-client-key="$CLUSTER/client.key" \
        --kubelet-certificate-authority="$CLUSTER/ca.crt" --kubelet-preferred-address-types=InternalIP \
        --service-account-key-file="$CLUSTER/accounts.pub" --service-account-signing-key-file="$CLUSTER/accounts.key" \
        --service-account-issuer=https://kubernetes.default.svc --token-auth-file="$CLUSTER/tokens" \
        --authorization-mode=Node,RBAC --service-cluster-ip-range=10.96.0.0/16 ${CLUSTER_GATES:+--feature-gates=$CLUSTER_GATES}
}

cluster_api_stop() {
    kill -9 "$cluster_api"
    wait "$cluster_api" 2> /dev/null || true
}

cluster_start() {
    CLUSTER=$1
    mkdir -p "$CLUSTER" "$CLUSTER/cni"
    CLUSTER_PORT=6443 CLUSTER_ETCD=12379
    # Releases before 1.21 remove ended Jobs only with this gate; later ones do not know it.
    kube-apiserver --version | grep -Eq ' v1\.(1[0-9]|20)\.' && CLUSTER_GATES=TTLAfterFinished=true || CLUSTER_GATES=
    ip link set lo up
    ip link show node > /dev/null 2>&1 || ip link add node type bridge
    ip addr replace 10.99.0.1/24 dev node
    ip link set node up
    ip route replace default via 10.99.0.1

    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$CLUSTER/ca.key" -out "$CLUSTER/ca.crt" -subj /CN=ca -days 2 2> /dev/null
    cluster_certificate api /CN=api "IP:127.0.0.1,DNS:localhost"
    cluster_certificate kubelet /CN=kubelet "IP:10.99.0.1,DNS:n1"
    cluster_certificate client /O=system:masters/CN=api-client
    openssl genrsa -out "$CLUSTER/accounts.key" 2048 2> /dev/null
    openssl rsa -in "$CLUSTER/accounts.key" -pubout -out "$CLUSTER/accounts.pub" 2> /dev/null
    local admin user node
    admin=$(openssl rand -hex 16) user=$(openssl rand -hex 16) node=$(openssl rand -hex 16)
    printf '%s,admin,1,system:masters\n%s,ada,2\n%s,system:node:n1,3,system:nodes\n' "$admin" "$user" "$node" > "$CLUSTER/tokens"
    export KUBECONFIG=$CLUSTER/admin.kubeconfig USER_KUBECONFIG=$CLUSTER/user.kubeconfig
    cluster_kubeconfig "$KUBECONFIG" "$admin"
    cluster_kubeconfig "$USER_KUBECONFIG" "$user"
    cluster_kubeconfig "$CLUSTER/node.kubeconfig" "$node"

    cluster_daemon etcd etcd --data-dir="$CLUSTER/etcd" --listen-client-urls="http://127.0.0.1:$CLUSTER_ETCD" \
        --advertise-client-urls="http://127.0.0.1:$CLUSTER_ETCD" --listen-peer-urls=http://127.0.0.1:12380 --log-level=error
    cluster_api_start
    answers() { kubectl get --raw=/readyz > /dev/null 2>&1; }
    within 90 "API server" answers
    cluster_daemon controllers kube-controller-manager --kubeconfig="$KUBECONFIG" --leader-elect=false --bind-address=127.0.0.1 \
        --port=0 --service-account-private-key-file="$CLUSTER/accounts.key" --root-ca-file="$CLUSTER/ca.crt" \
        --use-service-account-credentials=false --node-monitor-grace-period=12s \
        ${CLUSTER_GATES:+--feature-gates=$CLUSTER_GATES}
    cluster_daemon scheduler kube-scheduler --kubeconfig="$KUBECONFIG" --leader-elect=false --bind-address=127.0.0.1 --port=0

    cat > "$CLUSTER/containerd.toml" <<TOML
version = 2
root = "$CLUSTER/containerd"
state = "$CLUSTER/run"
[grpc]
  address = "$CLUSTER/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # A root without CAP_SYS_RESOURCE cannot protect a process from the killer of processes.
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "$CLUSTER/cni"
TOML
    cat > "$CLUSTER/cni/10-bridge.conf" <<'JSON'
{"cniVersion": "0.3.1", "name": "pods", "type": "bridge", "bridge": "pods", "isGateway": true, "ipMasq": false,
 "ipam": {"type": "host-local", "subnet": "10.98.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]}}
JSON
    cluster_daemon containerd containerd -c "$CLUSTER/containerd.toml"
    within 30 containerd ctr -a "$CLUSTER/containerd.sock" version > /dev/null
    cat > "$CLUSTER/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 10.99.0.1
tlsCertFile: $CLUSTER/kubelet.crt
tlsPrivateKeyFile: $CLUSTER/kubelet.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $CLUSTER/ca.crt}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
failSwapOn: false
enforceNodeAllocatable: []
evictionHard: {memory.available: 0%, nodefs.available: 0%, imagefs.available: 0%, nodefs.inodesFree: 0%}
imageGCHighThresholdPercent: 100
resolvConf: ""
healthzPort: 0
readOnlyPort: 0
YAML
    cluster_image_of_pause
    cluster_kubelet_start
    ready() { kubectl get nodes --no-headers 2> /dev/null | grep -q ' Ready '; }
    within 90 "node that is ready" ready
}

# Makes an image from the folder $ROOTFS, and prints its name with its digest: NAME [CHANGE OF ITS CONFIGURATION]...
cluster_image() {
    local name=localhost/$1 changes=() digest
    for change in "${@:2}"; do changes+=(--change "$change"); done
    tar -C "$ROOTFS" -c . | podman import --quiet "${changes[@]}" - "$name:1" > /dev/null
    podman save --quiet --format docker-archive --output "$CLUSTER/image.tar" "$name:1"
    podman rmi --force "$name:1" > /dev/null
    cluster_containers images import "$CLUSTER/image.tar" > /dev/null
    rm "$CLUSTER/image.tar"
    digest=$(cluster_containers images ls "name==$name:1" | awk 'NR == 2 {print $3}')
    cluster_containers images tag "$name:1" "$name@$digest" > /dev/null
    echo "$name@$digest"
}

cluster_containers() { ctr --address "$CLUSTER/containerd.sock" --namespace k8s.io "$@"; }

# The first process of each pod, which collects the orphans of the others.
cluster_image_of_pause() {
    cluster_image pause 'ENTRYPOINT ["/bin/sh", "-c", "trap exit TERM; while :; do sleep 3600 & wait; done"]' > /dev/null
}

cluster_kubelet_start() {
    cluster_daemon kubelet kubelet --config="$CLUSTER/kubelet.yaml" --kubeconfig="$CLUSTER/node.kubeconfig" --hostname-override=n1 \
        --node-ip=10.99.0.1 --root-dir="$CLUSTER/kubelet" --container-runtime=remote \
        --container-runtime-endpoint="unix://$CLUSTER/containerd.sock"
}

# Stops the kubelet, or kills the node with its containers.
cluster_kubelet_stop() { kill -9 "$cluster_kubelet"; wait "$cluster_kubelet" 2> /dev/null || true; }
cluster_node_kill() {
    cluster_kubelet_stop
    local task
    for task in $(cluster_containers tasks ls --quiet); do cluster_containers tasks kill --signal SIGKILL "$task" || true; done
}

cluster_stop() {
    [ -n "${CLUSTER:-}" ] || return 0
    [ -z "${cluster_kubelet:-}" ] || cluster_kubelet_stop
    local task pid
    if [ -n "${cluster_containerd:-}" ]; then
        for task in $(cluster_containers tasks ls --quiet 2> /dev/null); do
            cluster_containers tasks kill --signal SIGKILL "$task" > /dev/null 2>&1 || true
            cluster_containers tasks rm --force "$task" > /dev/null 2>&1 || true
        done
    fi
    for pid in "${cluster_pids[@]}"; do { kill -9 "$pid" && wait "$pid"; } 2> /dev/null || true; done
    # The processes that containerd left between itself and its containers name its address.
    for pid in $(grep -lazs "containerd-shim.*$CLUSTER/containerd.sock" /proc/[0-9]*/cmdline | cut -d/ -f3); do
        kill -9 "$pid" 2> /dev/null || true
    done
    sleep 1
    awk -v folder="$CLUSTER/" 'index($2, folder) == 1 {print $2}' /proc/self/mounts | sort -r | while read -r mount; do
        umount --lazy "$mount" 2> /dev/null || true
    done
    find /sys/fs/cgroup -depth -type d -path '*kubepods*' -exec rmdir {} \; 2> /dev/null || true
}
