#!/usr/bin/env python3
"""Prints a bill of materials of the binary, CycloneDX 1.5 as JSON, from `cargo metadata` and Cargo.lock.

    .ci/package/sbom.py VERSION > benchtrail.cdx.json

It lists the packages in the binary: normal and build dependencies for this machine's target, without test
dependencies. Nothing is downloaded.
"""

import json
import re
import subprocess
import sys
from pathlib import Path


def metadata() -> dict:
    host = re.search(r"^host: (.+)$", subprocess.check_output(["rustc", "-vV"], text=True), re.M)
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"]
    return json.loads(subprocess.check_output([*command, "--filter-platform", host.group(1)]))


def checksums() -> dict:
    """Returns the SHA-256 of each package's archive from Cargo.lock."""
    found = {}
    for block in Path("Cargo.lock").read_text().split("[[package]]")[1:]:
        fields = dict(re.findall(r'^(name|version|checksum) = "(.+)"$', block, re.M))
        if "checksum" in fields:
            found[fields["name"], fields["version"]] = fields["checksum"]
    return found


def main() -> None:
    version = sys.argv[1]
    data, sums = metadata(), checksums()
    packages = {p["id"]: p for p in data["packages"]}
    nodes = {n["id"]: n for n in data["resolve"]["nodes"]}
    root = next(p["id"] for p in data["packages"] if p["name"] == "benchtrail")
    linked, waiting = set(), [root]
    edges = {}
    while waiting:
        at = waiting.pop()
        if at in linked:
            continue
        linked.add(at)
        kinds = lambda d: any(k["kind"] in (None, "build") for k in d["dep_kinds"])
        edges[at] = sorted(d["pkg"] for d in nodes[at]["deps"] if kinds(d))
        waiting += edges[at]

    def purl(p: dict) -> str:
        return f"pkg:cargo/{p['name']}@{p['version']}"

    def component(p: dict) -> dict:
        own = p["source"] is None
        one = {
            "type": "library",
            "bom-ref": purl(p),
            "name": p["name"],
            "version": p["version"],
            "purl": purl(p),
        }
        if p.get("license"):
            one["licenses"] = [{"expression": p["license"].replace("/", " OR ")}]
        digest = sums.get((p["name"], p["version"]))
        if digest and not own:
            one["hashes"] = [{"alg": "SHA-256", "content": digest}]
        return one

    parts = sorted((packages[i] for i in linked if i != root), key=lambda p: (p["name"], p["version"]))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:cargo/benchtrail@{version}",
                "name": "benchtrail",
                "version": version,
                "purl": f"pkg:cargo/benchtrail@{version}",
            }
        },
        "components": [component(p) for p in parts],
        "dependencies": [
            {"ref": purl(packages[i]), "dependsOn": sorted({purl(packages[d]) for d in edges[i]})}
            for i in sorted(linked, key=lambda i: purl(packages[i]))
        ],
    }
    json.dump(document, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
