#!/usr/bin/env bash
# Builds a release archive: the binary, completions, manual pages, license, checksums and an SBOM. The same
# sources and tools give the same bytes.
#
#   .ci/package/release.sh [OUT] [TARGET] [CARGO PROFILE]      default: dist, this machine's target, dist
#
# TARGET may be any target that rustup has installed and that has a linker, such as x86_64-unknown-linux-musl (a static
# binary) or aarch64-unknown-linux-gnu. Completions and manual pages come from a binary for this machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
host=$(rustc -vV | sed -n 's/^host: //p')
out=${1:-dist} target=${2:-$host} profile=${3:-dist}
folder=$profile; [ "$profile" = dev ] && folder=debug
built=${CARGO_TARGET_DIR:-target}
# Keep paths of this machine out of the release.
export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"

cargo build --locked --profile "$profile" --bin benchtrail --target "$target"
binary=$built/$target/$folder/benchtrail
here=$binary
if [ "$target" != "$host" ]; then
  cargo build --locked --profile "$profile" --bin benchtrail --target "$host"
  here=$built/$host/$folder/benchtrail
fi
.ci/package/pack.sh "$out" "$target" "$binary" "$here"
