"""What a release is made of: workflows that name what exists, templates, the changelog, the bill of materials,
licenses, signatures, and a wheel that is the same each time.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.test_front_page import wrong_sections
from tests.test_tidy import make_targets, makefile
from tests.tree import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SCRIPT = re.compile(r"(?<![\w$./])\.?(?:ci|packaging|tests|requirements)/[\w./-]+")
PINNED = re.compile(r"[\w.-]+/[\w./-]+@(v\d+(\.\d+)*|release/v\d+|[0-9a-f]{40})")
TOOLS = Path(sys.executable).parent


def workflow_faults(workflow: Any, targets: set[str]) -> list[str]:
    """What does not exist (targets of make, scripts, jobs), actions without a version, no bound, too many rights."""
    found = [] if "permissions" in workflow else ["no permissions: the token may do anything"]
    jobs = workflow["jobs"]
    for name, job in jobs.items():
        needs = job.get("needs") or []
        found += [
            f"{name}: needs {other}" for other in ([needs] if isinstance(needs, str) else needs) if other not in jobs
        ]
        if "timeout-minutes" not in job:
            found.append(f"{name}: no timeout-minutes")
        for step in job["steps"]:
            command, action = step.get("run", ""), step.get("uses")
            found += [f"{name}: make {each}" for each in re.findall(r"\bmake ([\w-]+)", command) if each not in targets]
            found += [f"{name}: {each}" for each in SCRIPT.findall(command) if not (ROOT / each).exists()]
            if action and not PINNED.fullmatch(action):
                found.append(f"{name}: {action}")
    return found


def loaded(path: str) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class TestWorkflows:
    @pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
    def test_they_name_what_exists(self, path: Path) -> None:
        assert workflow_faults(yaml.safe_load(path.read_text()), make_targets(makefile())) == []

    def test_integration_runs_what_people_run(self) -> None:
        steps = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["all"]["steps"]
        assert steps[-1] == {"run": ".ci/run"}

    def test_a_fault_is_found(self) -> None:
        steps = [{"run": "make nothing && packaging/none"}, {"uses": "actions/checkout@main"}]
        wrong = {"jobs": {"a": {"needs": "b", "steps": steps}}}
        assert workflow_faults(wrong, {"dist"}) == [
            "no permissions: the token may do anything",
            "a: needs b",
            "a: no timeout-minutes",
            "a: make nothing",
            "a: packaging/none",
            "a: actions/checkout@main",
        ]

    @pytest.mark.parametrize(
        "path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
    )
    def test_templates_of_issues_have_what_the_form_needs(self, path: Path) -> None:
        form = yaml.safe_load(path.read_text())
        assert form["name"]
        assert form["description"]
        asked = [each for each in form["body"] if each["type"] != "markdown"]
        assert len({each["id"] for each in asked}) == len(asked) > 0
        assert all(each["attributes"]["label"] for each in asked)


class TestChangelog:
    def test_files_of_changes_are_named_by_their_kind(self) -> None:
        kinds = r"[a-z0-9-]+\.(added|changed|deprecated|removed|fixed|security)\.md"
        names = [path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
        assert [name for name in names if not re.fullmatch(kinds, name)] == []

    @pytest.mark.slow
    def test_a_release_puts_them_into_the_changelog(self, tmp_path: Path) -> None:
        for name in ("pyproject.toml", "CHANGELOG.md"):
            shutil.copy(ROOT / name, tmp_path)
        (tmp_path / "changes").mkdir()
        shutil.copy(ROOT / "changes/README.md", tmp_path / "changes")
        (tmp_path / "changes/one.fixed.md").write_text("A share is right.\n")
        (tmp_path / "changes/two.added.md").write_text("A flag.\n")
        command = [TOOLS / "towncrier", "build", "--version", "99.0.0", "--date", "2026-12-01", "--yes"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        after = (tmp_path / "CHANGELOG.md").read_text()
        new = "## 99.0.0 - 2026-12-01\n\n### Added\n\n- A flag.\n\n### Fixed\n\n- A share is right.\n"
        assert new in after
        assert after.index(new) < after.index("## 0.2.0")
        assert wrong_sections(after) == []
        assert [path.name for path in (tmp_path / "changes").iterdir()] == ["README.md"]


@pytest.mark.slow
def test_the_bill_of_materials_has_all_that_is_locked(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}"}
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    runs = [subprocess.Popen([ROOT / "packaging/sbom", file], env=environment) for file in files]
    assert [run.wait() for run in runs] == [0, 0]
    assert files[0].read_bytes() == files[1].read_bytes()
    found = json.loads(files[0].read_text())
    locked = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements/runtime.txt").read_text(), re.MULTILINE)
    assert found["bomFormat"] == "CycloneDX"
    assert sorted((each["name"], each["version"]) for each in found["components"]) == sorted(locked)
    assert found["metadata"]["component"]["version"], "it says of which version it is"


class TestLicenses:
    def test_those_of_all_packages_are_allowed(self, capsys: pytest.CaptureFixture[str]) -> None:
        module = loaded("packaging/licenses.py")
        assert module.main() == 0, capsys.readouterr().err
        assert "numpy " in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("fields", "license_", "allowed"),
        [
            ({"License-Expression": "MIT OR GPL-3.0-only"}, "MIT OR GPL-3.0-only", True),
            ({"License-Expression": "MIT AND GPL-3.0-only"}, "MIT AND GPL-3.0-only", False),
            ({"License-Expression": "Apache-2.0 WITH LLVM-exception"}, "Apache-2.0 WITH LLVM-exception", True),
            ({"License": "BSD"}, "BSD-3-Clause", True),
            ({"License": "Proprietary"}, "Proprietary", False),
            ({"Classifier": "License :: OSI Approved :: MIT License", "License": "MIT: see\nbelow"}, "MIT", True),
            (
                {"Classifier": "License :: OSI Approved :: GNU General Public License (GPL)"},
                "GNU General Public",
                False,
            ),
            ({}, "", False),
        ],
    )
    def test_a_license(self, fields: dict[str, str], license_: str, allowed: bool) -> None:
        module, meta = loaded("packaging/licenses.py"), Message()
        for name, value in fields.items():
            meta[name] = value
        found = module.license_of(meta)
        assert found.startswith(license_)
        assert module.License("p", "1", found).is_allowed == allowed

    def test_a_package_that_is_not_there_has_none(self) -> None:
        module = loaded("packaging/licenses.py")
        (found,) = module.licenses(module.locked("no-such-package==1.0 \\\n    --hash=sha256:0\n"))
        assert found == ("no-such-package", "1.0", "")
        assert module.locked("x==1 ; sys_platform == 'nowhere' \\\n    --hash=sha256:0\n") == []


def test_a_signature_by_a_local_key_is_one_that_cosign_reads(tmp_path: Path) -> None:
    """An ECDSA signature of the SHA-256, in base64: checked by a library that did not make it."""
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.TraditionalOpenSSL
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(pem)
    file = tmp_path / "kai_sched-0.whl"
    file.write_bytes(b"a wheel")
    subprocess.run([ROOT / "packaging/sign", tmp_path / "key.pem", file], check=True)
    signature = base64.b64decode((tmp_path / "kai_sched-0.whl.sig").read_bytes(), validate=True)
    key.public_key().verify(signature, b"a wheel", ec.ECDSA(hashes.SHA256()))
    with pytest.raises(InvalidSignature):
        key.public_key().verify(signature, b"another", ec.ECDSA(hashes.SHA256()))


@pytest.mark.slow
def test_a_wheel_is_the_same_each_time(tmp_path: Path) -> None:
    wheels = []
    for name in ("one", "two"):
        source = tmp_path / name / "source"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "kai_sched", source / "kai_sched", ignore=ignored)
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / file, source)
        for file in source.rglob("*.py"):  # as in a checkout of another time
            os.utime(file, (10**9, 10**9) if name == "one" else (11 * 10**8, 11 * 10**8))
        command = [
            sys.executable,
            "-c",
            "import sys; from flit_core.buildapi import build_wheel; build_wheel(sys.argv[1])",
        ]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}
        subprocess.run([*command, tmp_path / name], cwd=source, env=environment, check=True)
        wheels += list((tmp_path / name).glob("*.whl"))
    first, second = wheels
    assert first.read_bytes() == second.read_bytes()
    assert "kai_sched/cli/main.py" in zipfile.ZipFile(first).namelist()
