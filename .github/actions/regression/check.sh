#!/usr/bin/env bash
# Measures a study and compares it with that of the last release: a regression gate for CI.
#
#   .github/actions/regression/check.sh EXPERIMENT BASELINE [SUMMARY] [-- OPTIONS OF diff]
#
# EXPERIMENT is measured, or taken from the store where nothing changed. BASELINE is a bundle, its archive, or a lock in
# the same store. Without a baseline, this is the first run, and nothing is compared. SUMMARY (summary.md) receives the
# outcome in Markdown.
#
# Exit codes are those of `benchtrail diff --gate` (0: nothing got worse, 1: something did, 6: the data cannot decide),
# those of `benchtrail run` if the measurement failed, or 2 for a wrong argument or if this script cannot do its work. Arguments are
# checked before anything is measured. BENCHTRAIL_BINARY names the program, and BENCHTRAIL_RUN_OPTIONS has additional options
# of `run`.
set -Eeuo pipefail
# 1 would say that something got worse.
trap 'echo "error: $0: line $LINENO failed, and nothing is known of a regression" >&2; exit 2' ERR
if [ $# -lt 2 ]; then
  echo "usage: $0 EXPERIMENT BASELINE [SUMMARY] [-- OPTIONS OF diff]" >&2
  echo "BASELINE is a bundle, its archive, or a lock; name one that does not exist yet to measure only" >&2
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
  echo "hint: \`pip install benchtrail\`, or set BENCHTRAIL_BINARY to its path" >&2
  exit 2
fi
# A wrong option must not be met after an hour of measuring.
"$benchtrail" diff "$baseline" "$experiment" --gate "$@" --help >/dev/null || exit 2
mkdir -p "$(dirname "$summary")"
if ! : >>"$summary"; then
  echo "hint: name another file for the summary" >&2
  exit 2
fi

# The run may overwrite the baseline's lock, so copy it first, into the same folder, where its store is found.
work=$(mktemp -d) aside= given=$baseline
trap 'rm -rf "$work"; [ -z "$aside" ] || rm -f "$aside"' EXIT
if [ -f "$baseline" ] && [ "${baseline##*.}" = lock ]; then
  aside=$(mktemp -p "$(dirname "$baseline")" baseline-XXXXXX.lock)
  cp "$baseline" "$aside"
  baseline=$aside
fi

# GitHub reads lines that begin with `::` as commands. Text of the study must not be able to give any.
shown() {
  if [ -z "${GITHUB_ACTIONS:-}" ]; then cat "$1"; return; fi
  local token
  token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  echo "::stop-commands::$token"
  cat "$1"
  printf '\n%s\n' "::$token::"
}

ran=0
# shellcheck disable=SC2086 # several options
"$benchtrail" run "$experiment" --quiet ${BENCHTRAIL_RUN_OPTIONS:-} >"$work/run.txt" 2>&1 || ran=$?
shown "$work/run.txt"

# The summary quotes text of the study, which must not be able to end the block.
quoted() { echo; echo '````text'; sed 's/````/` ` ` `/g' "$1"; echo '````'; }

if [ "$ran" -ne 0 ]; then
  { echo "## Not measured"; echo; echo "\`benchtrail run\` ended with exit code $ran. Nothing was compared."; quoted "$work/run.txt"; } >"$summary"
  exit "$ran"
fi
if [ ! -e "$baseline" ]; then
  echo "warning: there is no baseline $baseline, so nothing was compared" >&2
  [ -z "${GITHUB_ACTIONS:-}" ] || echo "::warning::There is no baseline, so nothing was compared"
  { echo "## Measured, with nothing to compare"; echo; echo "There is no baseline \`$baseline\` yet."; quoted "$work/run.txt"; } >"$summary"
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
