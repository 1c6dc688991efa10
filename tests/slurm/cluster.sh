# A Slurm cluster of three nodes on this machine, in separate processes: sourced by `run`.
#
# Needs slurmctld, slurmd, munged and Slurm's commands (on Debian: apt install slurm-wlm munge). It is independent of
# the system's own Slurm: keys, sockets, ports and state are in the folder $CLUSTER.

# Starts munged, the controller and three nodes in the folder $CLUSTER.
cluster_start() {
    local port
    port=$((20000 + $$ % 20000))
    mkdir -p "$CLUSTER"/{state,spool,log,munge}
    chmod 700 "$CLUSTER/munge"
    dd if=/dev/urandom of="$CLUSTER/munge/key" bs=128 count=1 2>/dev/null
    chmod 600 "$CLUSTER/munge/key"
    cat > "$CLUSTER/slurm.conf" <<CONF
ClusterName=lane
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$CLUSTER/munge/socket,cred_expire=10
CredType=cred/munge
StateSaveLocation=$CLUSTER/state
SlurmdSpoolDir=$CLUSTER/spool/%n
SlurmctldPidFile=$CLUSTER/slurmctld.pid
SlurmdPidFile=$CLUSTER/slurmd-%n.pid
SlurmctldLogFile=$CLUSTER/log/slurmctld
SlurmdLogFile=$CLUSTER/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
SlurmdTimeout=10
SlurmctldTimeout=10
KillWait=5
MinJobAge=300
ReturnToService=2
JobRequeue=1
SchedulerParameters=batch_sched_delay=0,sched_interval=2,requeue_setup_env_fail
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-3] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 3))] CPUs=2 RealMemory=4000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9
CONF
    export SLURM_CONF="$CLUSTER/slurm.conf"
    munged --foreground --force --key-file="$CLUSTER/munge/key" --socket="$CLUSTER/munge/socket" \
        --pid-file="$CLUSTER/munge/pid" --log-file="$CLUSTER/munge/log" --seed-file="$CLUSTER/munge/seed" \
        > "$CLUSTER/log/munged" 2>&1 &
    MUNGED=$!
    controller_start
    for node in n1 n2 n3; do node_start "$node"; done
    within 60 "three idle nodes" nodes_are_idle
}

controller_start() {
    slurmctld -D -f "$SLURM_CONF" > "$CLUSTER/log/slurmctld.out" 2>&1 &
    CONTROLLER=$!
}

# Starts a node; its process is in NODE_PID[name].
declare -A NODE_PID
node_start() {
    slurmd -D -N "$1" -f "$SLURM_CONF" > "$CLUSTER/log/slurmd-$1.out" 2>&1 &
    NODE_PID[$1]=$!
}

nodes_are_idle() { [ "$(sinfo --noheader --Node --partition=main --format=%T 2>/dev/null | grep -c '^idle')" = 3 ]; }

# Prints the processes of jobs on a node, including the step's daemon. Job steps are not children of the node's daemon.
node_processes() {
    local file pid
    for file in $(grep -lzxF "SLURMD_NODENAME=$1" /proc/[0-9]*/environ 2> /dev/null); do
        grep -qzxF "SLURM_CONF=$SLURM_CONF" "$file" 2> /dev/null || continue
        pid=${file//[!0-9]/}
        echo "$pid"
        ps -o pid=,comm= -p "$(ps -o ppid= -p "$pid" 2> /dev/null)" 2> /dev/null \
            | awk '$2 ~ /^slurmstepd/ { print $1 }'
    done | sort -u
}

# Kills a node and everything that runs on it, as in a power failure.
node_kill() {
    kill -9 "${NODE_PID[$1]}" $(node_processes "$1") 2>/dev/null || true
    wait "${NODE_PID[$1]}" 2>/dev/null || true
    # Processes that were started before their parent was killed.
    kill -9 $(node_processes "$1") 2>/dev/null || true
}

# Ends everything that this script started.
cluster_stop() {
    scancel --quiet --me 2>/dev/null || true
    sleep 1
    for node in "${!NODE_PID[@]}"; do
        kill "${NODE_PID[$node]}" 2>/dev/null || true
    done
    kill "$CONTROLLER" "$MUNGED" 2>/dev/null || true
    wait "$CONTROLLER" "$MUNGED" "${NODE_PID[@]}" 2>/dev/null || true
}
