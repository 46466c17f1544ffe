"""Templates and zips for whoever deploys without CDK: nothing of its bootstrap is left in them."""

import json
import zipfile
from pathlib import Path

from infra.template import PARAMETER, write


def test_templates_need_one_bucket_and_nothing_else(assembly: Path, tmp_path: Path) -> None:
    files = write(assembly / "dev", tmp_path)
    names = ["docstokg-dev-data.template.json", "docstokg-dev.template.json"]
    assert [name for name in files if name.endswith(".json")] == sorted(names)
    for name in names:
        text = (tmp_path / name).read_text("utf-8")
        assert "cdk-hnb659fds" not in text and "BootstrapVersion" not in text
        body = json.loads(text)
        assert "Rules" not in body
        assert list(body.get("Parameters", {})) == [PARAMETER] * ("data" not in name)
    body = json.loads((tmp_path / names[1]).read_text("utf-8"))
    used = set()
    for resource in body["Resources"].values():
        properties = resource.get("Properties", {})
        code = properties.get("Code" if resource["Type"].endswith("Function") else "Content", {})
        if isinstance(code, dict) and "S3Key" in code:
            assert code["S3Bucket"] == {"Ref": PARAMETER}
            used.add(code["S3Key"])
    stored = {path.name for path in (tmp_path / "assets").iterdir()}
    assert used and used == stored
    with zipfile.ZipFile(tmp_path / "assets" / next(iter(used))) as archive:
        assert archive.namelist()
