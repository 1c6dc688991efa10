#!/usr/bin/env bash
# Measures a study and compares it with that of the last release: a regression gate for CI.
#
#   .github/actions/regression/check.sh EXPERIMENT BASELINE [SUMMARY] [-- OPTIONS OF diff]
#
# EXPERIMENT is measured, or taken from the store where nothing changed. BASELINE is a bundle, its archive, or a lock in
# the same store. `none` says that there is no release to compare with yet: the script only measures. A baseline with any
# other name must exist, so that a mistyped name does not switch the gate off. SUMMARY (summary.md) receives the outcome
# in Markdown.
#
# Exit codes are those of `benchtrail diff --gate` (0: nothing got worse, 1: something did, 6: the data cannot decide),
# those of `benchtrail run` if the measurement failed (1: a cell is not ok), 5 if the baseline does not exist, or 2 for a wrong argument or if
# this script cannot do its work. Arguments and the baseline are checked before anything is measured. BENCHTRAIL_BINARY
# names the program, and BENCHTRAIL_RUN_OPTIONS has additional options of `run`.
set -Eeuo pipefail
# 1 would say that something got worse.
trap 'echo "error: $0: line $LINENO failed, and nothing is known of a regression" >&2; exit 2' ERR
if [ $# -lt 2 ]; then
  echo "usage: $0 EXPERIMENT BASELINE [SUMMARY] [-- OPTIONS OF diff]" >&2
  echo "BASELINE is a bundle, its archive, or a lock; \`none\` measures without a comparison" >&2
  exit 2
fi
experiment=$1 baseline=$2 summary=summary.md
shift 2
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then summary=$1; shift; fi
if [ $# -gt 0 ] && [ "$1" != -- ]; then
  echo "error: $1 is neither a summary nor after \`--\`" >&2
  echo "hint: write options of \`benchtrail diff\` after \`--\`: $0 $experiment $baseline $summary -- $*" >&2
  exit 2
fi
[ "${1:-}" != -- ] || shift
benchtrail=${BENCHTRAIL_BINARY:-benchtrail}
if ! command -v "$benchtrail" >/dev/null; then
  echo "error: there is no program $benchtrail" >&2
  echo "hint: put it on the search path, or set BENCHTRAIL_BINARY to its path" >&2
  exit 2
fi
# A workflow that passes a variable without a value, or a name with a typo, must not pass as a first run.
if [ -z "$baseline" ]; then
  echo "error: the baseline has no name" >&2
  echo "hint: give a bundle, its archive, or a lock; \`none\` measures without a comparison" >&2
  exit 2
fi
# A wrong option must not be met after an hour of measuring.
"$benchtrail" diff "$baseline" "$experiment" --gate "$@" --help >/dev/null || exit 2
mkdir -p "$(dirname "$summary")"
# An old outcome must not stand for this one.
if ! : >"$summary"; then
  echo "hint: name another file for the summary" >&2
  exit 2
fi

work=$(mktemp -d) aside= given=$baseline
trap 'rm -rf "$work"; [ -z "$aside" ] || rm -f "$aside"' EXIT

# GitHub reads lines that begin with `::` as commands. Text of the study must not be able to give any.
shown() {
  if [ -z "${GITHUB_ACTIONS:-}" ]; then cat "$1"; return; fi
  local token
  token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  echo "::stop-commands::$token"
  cat "$1"
  printf '\n%s\n' "::$token::"
}

# The summary quotes text of the study, which must not be able to end the block.
quoted() { echo; echo '````text'; sed 's/````/` ` ` `/g' "$1"; echo '````'; }

if [ "$baseline" != none ] && [ ! -e "$baseline" ]; then
  echo "error: the baseline $baseline does not exist; nothing was measured" >&2
  echo "hint: correct the path; if there is no release to compare with yet, write \`none\` in place of it" >&2
  { echo "## Not measured"; echo; echo "The baseline \`$baseline\` does not exist."; } >"$summary"
  exit 5
fi
# A baseline that cannot be read must not be met after an hour of measuring. What can be read compares with itself.
if [ "$baseline" != none ]; then
  read=0
  "$benchtrail" diff "$baseline" "$baseline" --gate "$@" >"$work/read.txt" 2>&1 || read=$?
  if [ "$read" -ne 0 ] && [ "$read" -ne 6 ]; then
    shown "$work/read.txt"
    echo "error: the baseline $baseline does not compare with itself, and nothing was measured" >&2
    { echo "## Not measured"; echo; echo "The baseline \`$baseline\` cannot be compared."; quoted "$work/read.txt"; } >"$summary"
    # 1 would say that something got worse.
    [ "$read" -ne 1 ] || read=2
    exit "$read"
  fi
fi

# The run may overwrite the baseline's lock, so copy it first, into the same folder, where its store is found.
if [ -f "$baseline" ] && [ "${baseline##*.}" = lock ]; then
  aside=$(mktemp -p "$(dirname "$baseline")" baseline-XXXXXX.lock)
  cp "$baseline" "$aside"
  baseline=$aside
fi

ran=0
# shellcheck disable=SC2086 # several options
"$benchtrail" run "$experiment" --quiet ${BENCHTRAIL_RUN_OPTIONS:-} >"$work/run.txt" 2>&1 || ran=$?
shown "$work/run.txt"

if [ "$ran" -ne 0 ]; then
  { echo "## Not measured"; echo; echo "\`benchtrail run\` ended with exit code $ran. Nothing was compared."; quoted "$work/run.txt"; } >"$summary"
  exit "$ran"
fi
if [ "$baseline" = none ]; then
  echo "note: the baseline is \`none\`, so nothing was compared" >&2
  [ -z "${GITHUB_ACTIONS:-}" ] || echo "::notice::The baseline is none, so nothing was compared"
  { echo "## Measured, with nothing to compare"; echo; echo "The baseline is \`none\`."; quoted "$work/run.txt"; } >"$summary"
  exit 0
fi

outcome=0
"$benchtrail" diff "$baseline" "$experiment" --gate "$@" >"$work/diff.txt" 2>&1 || outcome=$?
if [ -n "$aside" ]; then
  # The copy stands for the lock that was given.
  compared=$(cat "$work/diff.txt")
  printf '%s\n' "${compared//"$aside"/"$given"}" >"$work/diff.txt"
fi
shown "$work/diff.txt"
case $outcome in
  0) title="No regression" said="No column got worse by as much as the threshold." ;;
  1) title="Regression" said="At least one column got worse by more than the threshold." ;;
  6) title="Undecided" said="The data do not show whether anything got worse; the gate says why." ;;
  *) title="Not compared" said="\`benchtrail diff\` ended with exit code $outcome." ;;
esac
# A gate over results of the store says nothing about today's server.
if grep -q '^0 cells executed' "$work/run.txt"; then
  said="$said Nothing was measured in this run: no recipe changed, and all results come from the store. If something outside
the recipe changed, such as a server at a URL, measure again with \`BENCHTRAIL_RUN_OPTIONS='--fresh STAGE'\`."
fi
{ echo "## $title"; echo; echo "$said"; quoted "$work/diff.txt"; } >"$summary"
exit "$outcome"
