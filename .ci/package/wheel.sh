#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh environment, and runs a new user's first commands. Needs python3 with venv
# and pip, and a package registry from which pip can install maturin.
#
#   .ci/package/wheel.sh [OUT] [CARGO PROFILE]      default: dist dist (the folder, and the profile with link-time optimisation)
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-dist} profile=${2:-dist}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

folder=$profile; [ "$profile" = dev ] && folder=debug
cargo build --locked --profile "$profile" --bin benchtrail
binary=${CARGO_TARGET_DIR:-target}/$folder/benchtrail
.ci/package/shell-files.sh "$binary" .ci/package/wheel.data/data/share

python3 -m venv "$work/build"
"$work/build/bin/pip" install --quiet 'maturin>=1.9,<2'
mkdir -p "$out"
"$work/build/bin/maturin" build --profile "$profile" --out "$out" --auditwheel skip
wheel=$(ls -t "$out"/benchtrail-*.whl | head -1)

python3 -m venv "$work/user"
"$work/user/bin/pip" install --quiet --no-index "$wheel"
mkdir "$work/study"
(
    cd "$work/study"
    export PATH="$work/user/bin:$PATH"
    benchtrail --version
    benchtrail init mine --yes
    benchtrail plan mine.yaml | tail -1
    benchtrail list engines >/dev/null
    python -c 'import benchtrail; print("import benchtrail:", benchtrail.version())'
    test -f "$work/user/share/man/man1/benchtrail-run.1"
    test -f "$work/user/share/bash-completion/completions/benchtrail"
)
ls -l "$wheel"
