"""Deployment without CDK; see docs/without-cdk.md."""

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import typer

from infra.app import BUNDLES, build, deployable
from infra.specs import ROOT

PARAMETER = "AssetBucket"
BUCKET = re.compile(r'\{"Fn::Sub": "cdk-[a-z0-9]+-assets-[^"]*"\}')


def freed(text: str) -> str:
    """Return a JSON template with a bucket parameter, if used, instead of CDK's bootstrap stack."""
    plain, used = BUCKET.subn(json.dumps({"Ref": PARAMETER}), json.dumps(json.loads(text)))
    body = json.loads(plain) | {"Rules": {}, "Parameters": {}}
    if used:
        body["Parameters"][PARAMETER] = {"Type": "String", "Description": "Has the zips of assets/"}
    return json.dumps({key: value for key, value in body.items() if value}, indent=1)


def write(assembly: Path, out: Path) -> list[str]:
    """Replace `out` by templates and zips of an assembly; return their names."""
    shutil.rmtree(out, ignore_errors=True)
    (out / "assets").mkdir(parents=True)
    names = []
    for path in sorted(assembly.glob("docstokg-*.template.json")):
        (out / path.name).write_text(freed(path.read_text(encoding="utf-8")), encoding="utf-8")
        names.append(path.name)
        listed = path.with_name(path.name.replace(".template.", ".assets."))
        for entry in json.loads(listed.read_text(encoding="utf-8"))["files"].values():
            (at,) = entry["destinations"].values()
            target = out / "assets" / Path(at["objectKey"]).stem
            if entry["source"]["packaging"] == "zip":
                shutil.make_archive(str(target), "zip", assembly / entry["source"]["path"])
                names.append(f"assets/{target.name}.zip")
    return names


def main(name: str) -> None:
    """Write the templates and zips of an environment to `build/template/ENV`; see `deployable`."""
    target = deployable(name)
    with tempfile.TemporaryDirectory() as folder:
        build(target, out=Path(folder), bundles=BUNDLES).synth()
        for file_name in write(Path(folder), ROOT / "build" / "template" / name):
            sys.stdout.write(f"{file_name}\n")


if __name__ == "__main__":
    typer.run(main)
