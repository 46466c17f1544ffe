"""What `make deploy-local` changes in a template, and that something else covers it."""

import json
import re

import pytest

from tests.infra.conftest import ROOT, Template
from tests.infra.emulator.limits import COVERED, UNKNOWN, fit

pytestmark = [pytest.mark.xdist_group("synth"), pytest.mark.timeout(900)]


def test_only_what_is_listed_is_changed(template: Template) -> None:
    for text in template.texts:
        given = json.loads(text)
        fitted = fit(given, {"OMP_NUM_THREADS": "1"})
        left = fitted.body["Resources"]
        gone = given["Resources"].keys() - left.keys()
        assert {given["Resources"][name]["Type"] for name in gone} == set(fitted.removed)
        assert set(fitted.removed) <= set(UNKNOWN)
        for name, resource in left.items():
            kind = resource["Type"]
            if kind == "AWS::CloudWatch::Alarm":
                assert "Metrics" not in resource["Properties"]
            elif kind == "AWS::StepFunctions::StateMachine":
                defined = resource["Properties"]["DefinitionString"]
                assert not re.search(r'"TimeoutSeconds":\s*"', defined)
            elif not kind.startswith("AWS::Lambda::"):
                before = given["Resources"][name]
                assert resource.get("Properties") == before.get("Properties"), name
        assert fit(fitted.body, {"OMP_NUM_THREADS": "1"}).body == fitted.body


def test_each_limit_of_the_emulator_is_covered_by_tests_that_are_there() -> None:
    for _, _, tests in COVERED:
        for name in tests.split(", "):
            assert list((ROOT / "tests").rglob(f"{name}.py")), name
