#!/bin/sh
# A stub of Slurm's commands for tests: not Slurm. It keeps jobs in the folder $SLURM_STUB and executes them immediately.
#
#   modes    a line for each future job: `memory` (ends as OUT_OF_MEMORY without executing anything), `refuse`; otherwise it runs
#   hold     while this file exists, jobs stay PENDING
#   silent   how many more times the controller does not answer
#   forgets  while this file exists, `squeue` knows no job, as after MinJobAge, but `sacct` does
#   asked    a line for each `sbatch`
set -eu
cd "$SLURM_STUB"
mkdir -p jobs
program=$(basename "$0")
if [ -s silent ] && [ "$(cat silent)" -gt 0 ]; then
    echo $(($(cat silent) - 1)) > silent
    echo "$program: error: Unable to contact slurm controller (connect failure)" >&2
    exit 1
fi
case $program in
sbatch)
    echo "$*" >> asked
    mode=$(sed -n 1p modes 2> /dev/null || true)
    [ -z "$mode" ] || sed -i 1d modes
    if [ "$mode" = refuse ]; then
        echo "sbatch: error: invalid partition specified: gpu" >&2
        echo "sbatch: error: Batch job submission failed: Invalid partition name specified" >&2
        exit 1
    fi
    job=$(wc -l < asked)
    mkdir "jobs/$job"
    node=node1
    for argument; do
        case $argument in
        --job-name=*) echo "${argument#*=}" > "jobs/$job/name" ;;
        --output=*) output=${argument#*=} ;;
        --wrap=*) wrap=${argument#*=} ;;
        --nodelist=*) node=${argument#*=} ;;
        esac
    done
    echo "$node" > "jobs/$job/node"
    if [ "$mode" = memory ]; then
        echo OUT_OF_MEMORY > "jobs/$job/state"
        echo "slurmstepd: error: Detected 1 oom-kill event(s)" >> "$output"
    else
        echo PENDING > "jobs/$job/state"
        (
            while [ -e hold ]; do sleep 0.1; done
            [ "$(cat "jobs/$job/state")" = PENDING ] || exit 0
            echo RUNNING > "jobs/$job/state"
            code=0
            SLURM_JOB_ID=$job SLURMD_NODENAME=$node sh -c "$wrap" >> "$output" 2>&1 || code=$?
            [ "$(cat "jobs/$job/state")" = RUNNING ] || exit 0
            if [ $code = 0 ]; then echo COMPLETED; else echo FAILED; fi > "jobs/$job/state"
        ) > /dev/null 2>&1 < /dev/null &
    fi
    echo "$job"
    ;;
squeue)
    [ ! -e forgets ] || exit 0
    for folder in jobs/*; do
        [ -e "$folder/state" ] || continue
        echo "${folder#jobs/}|$(cat "$folder/name")|$(cat "$folder/state")|None|$(cat "$folder/node")|0:01|2026-11-23T01:00:00|2026-11-23T01:00:07"
    done
    ;;
sacct)
    for job; do :; done
    [ -e "jobs/$job/state" ] || exit 0
    echo "$job|$(cat "jobs/$job/name")|$(cat "jobs/$job/state")|None|$(cat "jobs/$job/node")|00:00:01|0:125"
    ;;
scancel)
    for job; do echo CANCELLED > "jobs/$job/state"; done
    ;;
scontrol)
    for job; do :; done
    echo "JobId=$job JobState=$(cat "jobs/$job/state") Reason=None ExitCode=0:125 Restarts=0"
    ;;
esac
