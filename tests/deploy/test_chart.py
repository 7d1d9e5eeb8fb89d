"""The Helm chart, by Helm itself: what it renders is what a cluster would be given."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("yaml")

from helm import CHART, ROOT, rendered, run_helm
from yaml import safe_load

import headrace

if TYPE_CHECKING:
    from pathlib import Path


def one(documents: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (document for document in documents if document["kind"] == kind)
    return found


def test_helm_finds_nothing_wrong(tmp_path: Path) -> None:
    done = run_helm(tmp_path, "lint", "--strict", str(CHART))

    assert done.returncode == 0, done.stdout
    assert "0 chart(s) failed" in done.stdout


def test_the_chart_is_of_this_version_and_this_project() -> None:
    chart = safe_load((CHART / "Chart.yaml").read_text())
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]

    assert chart["appVersion"] == headrace.__version__
    assert chart["home"] == urls["Source"]
    assert chart["sources"] == [urls["Source"]]


def test_services_select_the_pod_of_the_server_and_no_other(tmp_path: Path) -> None:
    documents = rendered(tmp_path)
    template = one(documents, "StatefulSet")["spec"]["template"]
    services = [each for each in documents if each["kind"] == "Service"]
    ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}

    assert len(services) == 2
    for service in services:
        selector = service["spec"]["selector"].items()
        assert selector <= template["metadata"]["labels"].items()
        assert not selector <= one(documents, "Pod")["metadata"]["labels"].items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} == ports
    stateful = one(documents, "StatefulSet")["spec"]
    assert stateful["serviceName"] in [
        each["metadata"]["name"] for each in services if each["spec"].get("clusterIP") == "None"
    ]
    assert stateful["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_ports_for_other_clients_are_those_of_services_and_pod(tmp_path: Path) -> None:
    documents = rendered(tmp_path, service_ports_mqtt="1883")
    (container,) = one(documents, "StatefulSet")["spec"]["template"]["spec"]["containers"]

    assert {"name": "mqtt", "containerPort": 1883} in container["ports"]
    for service in (each for each in documents if each["kind"] == "Service"):
        assert "mqtt" in [port["targetPort"] for port in service["spec"]["ports"]]


def test_the_pod_may_do_little(tmp_path: Path) -> None:
    pod = one(rendered(tmp_path), "StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_server_takes_the_configuration_and_has_time_to_leave(tmp_path: Path) -> None:
    documents = rendered(tmp_path)
    text = one(documents, "ConfigMap")["data"]["headrace.conf"]
    pod = one(documents, "StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    (tmp_path / "headrace.conf").write_text(text)
    script = (
        "from headrace.conf.binding import load_options\n"
        "o = load_options('headrace.conf')\n"
        "print(o.server_name, o.port, o.http_port, o.jetstream.store_dir, o.lame_duck_duration)"
    )
    told = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "POD_NAME": "nats-headrace-0"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert told.returncode == 0, told.stderr
    name, client, monitor, store, seconds = told.stdout.split()
    assert container["args"] == ["serve", "-c", f"{mounts['config']}/headrace.conf"]
    assert name == "nats-headrace-0"
    assert {each["containerPort"] for each in container["ports"]} == {int(client), int(monitor)}
    assert store == mounts["data"]
    assert float(seconds) < pod["terminationGracePeriodSeconds"]


def test_another_configuration_restarts_the_pod(tmp_path: Path) -> None:
    def checksum(**values: str) -> str:
        pod = one(rendered(tmp_path, **values), "StatefulSet")["spec"]["template"]
        told: str = pod["metadata"]["annotations"]["checksum/config"]
        return told

    assert checksum() == checksum()
    assert checksum() != checksum(config="port: 4222")


def test_streams_are_in_a_volume_unless_they_need_not_stay(tmp_path: Path) -> None:
    kept = one(rendered(tmp_path, persistence_size="3Gi"), "StatefulSet")["spec"]
    gone = one(rendered(tmp_path, persistence_enabled="false"), "StatefulSet")["spec"]

    (claim,) = kept["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "data"
    assert claim["spec"]["resources"]["requests"]["storage"] == "3Gi"
    assert "volumeClaimTemplates" not in gone
    assert {"name": "data", "emptyDir": {}} in gone["template"]["spec"]["volumes"]


def test_prometheus_asks_the_service_of_clients_alone(tmp_path: Path) -> None:
    documents = rendered(tmp_path, serviceMonitor_enabled="true", serviceMonitor_jsz="streams")
    monitor = one(documents, "ServiceMonitor")["spec"]
    (endpoint,) = monitor["endpoints"]
    wanted = monitor["selector"]["matchLabels"].items()
    without = {each["key"] for each in monitor["selector"]["matchExpressions"]}
    asked = [
        each
        for each in documents
        if each["kind"] == "Service"
        and wanted <= each["metadata"]["labels"].items()
        and not without & each["metadata"]["labels"].keys()
    ]

    assert endpoint["params"] == {"jsz": ["streams"]}
    assert len(asked) == 1
    assert "clusterIP" not in asked[0]["spec"]
    assert endpoint["port"] in [port["name"] for port in asked[0]["spec"]["ports"]]
    assert not [each for each in rendered(tmp_path) if each["kind"] == "ServiceMonitor"]


@pytest.mark.parametrize(
    ("values", "about"),
    [
        ({"replicas": "2"}, "/replicas"),
        ({"service_ports_client": "70000"}, "/service/ports/client"),
        ({"serviceMonitor_jsz": "everything"}, "/serviceMonitor/jsz"),
        ({"config": ""}, "/config"),
    ],
)
def test_values_that_cannot_be_are_refused(tmp_path: Path, values: dict[str, str], about: str) -> None:
    chosen = [f"--set={name.replace('_', '.')}={value}" for name, value in values.items()]
    done = run_helm(tmp_path, "template", "nats", str(CHART), *chosen)

    assert done.returncode != 0
    assert about in done.stderr
