#!/usr/bin/env bash
# Packs a binary that has been built; release.sh calls this.
#
#   .ci/package/pack.sh OUT TARGET BINARY [BINARY FOR THIS MACHINE]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$1 target=$2 binary=$3 here=${4:-$3}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$here" --version | cut -d' ' -f2)
name=benchtrail-$version-$target
root=$work/$name

install -D -m 755 "$binary" "$root/bin/benchtrail"
.ci/package/shell-files.sh "$here" "$root/share"
install -m 644 LICENSE README.md CHANGELOG.md "$root"
.ci/package/sbom.py "$version" > "$out/$name.cdx.json"

# The date of the last commit, so that packing twice gives the same bytes.
date=@$(git log -1 --format=%ct 2>/dev/null || echo 0)
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="$date" -C "$work" -cf - "$name" | gzip -9n > "$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" "$name.cdx.json" > "$name.sha256")
ls -l "$out/$name.tar.gz" "$out/$name.cdx.json" "$out/$name.sha256"
