#!/usr/bin/env bash
# Writes completions and manual pages to their standard locations below a `share` folder.
#
#   .ci/package/shell-files.sh BINARY SHARE
set -euo pipefail
binary=$1 share=$2
mkdir -p "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
"$binary" completions bash > "$share/bash-completion/completions/benchtrail"
"$binary" completions zsh > "$share/zsh/site-functions/_benchtrail"
"$binary" completions fish > "$share/fish/vendor_completions.d/benchtrail.fish"
"$binary" man --out "$share/man/man1" > /dev/null
