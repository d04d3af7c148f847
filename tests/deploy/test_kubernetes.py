"""`kubernetes.yaml`: its objects fit together, and its configuration is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.config import load
from tests.deploy.files import documents, unknown_variables

if TYPE_CHECKING:
    from pathlib import Path

OBJECTS: list[dict[str, Any]] = documents("kubernetes.yaml")


def of(kind: str) -> list[dict[str, Any]]:
    return [each for each in OBJECTS if each["kind"] == kind]


@pytest.fixture
def pod() -> dict[str, Any]:
    (found,) = of("StatefulSet")
    template: dict[str, Any] = found["spec"]["template"]
    return template


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod["spec"]["containers"]
    one: dict[str, Any] = found
    return one


def test_what_selects_pods_selects_these(pod: dict[str, Any]) -> None:
    labels = pod["metadata"]["labels"]
    selectors = [
        *(each["spec"]["selector"] for each in of("Service")),
        *(each["spec"]["selector"]["matchLabels"] for each in (*of("StatefulSet"), *of("PodDisruptionBudget"))),
    ]
    assert len(selectors) == 4
    assert all(each.items() <= labels.items() for each in selectors)
    assert of("StatefulSet")[0]["spec"]["serviceName"] in [each["metadata"]["name"] for each in of("Service")]


def test_probes_ask_the_paths_of_the_port_for_probes(container: dict[str, Any]) -> None:
    asked = {name: container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert {name: each["path"] for name, each in asked.items()} == {
        "startupProbe": "/startupz",
        "readinessProbe": "/readyz",
        "livenessProbe": "/livez",
    }
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert {each["port"] for each in asked.values()} == {"probes"}
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert variables["EVERMQ_HTTP_PROBES"].endswith(f":{ports['probes']}")
    assert unknown_variables(variables) == set()
    for service in of("Service"):
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= set(ports)


def test_the_pod_has_no_right_that_it_does_not_need(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert pod["spec"]["securityContext"].items() >= {"runAsNonRoot": True, "runAsGroup": 0}.items()
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_each_mount_is_a_volume_and_data_is_kept(pod: dict[str, Any], container: dict[str, Any]) -> None:
    (stateful,) = of("StatefulSet")
    kept = [each["metadata"]["name"] for each in stateful["spec"]["volumeClaimTemplates"]]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert set(mounts) == {*kept, *(each["name"] for each in pod["spec"]["volumes"])}
    assert (kept, mounts["data"]) == (["data"], "/var/lib/evermq")


def test_the_configuration_of_the_pod_is_one(container: dict[str, Any], tmp_path: Path) -> None:
    (texts,) = (each["data"] for each in of("ConfigMap"))
    (tmp_path / "broker.toml").write_text(texts["broker.toml"], "utf-8")
    config = load(tmp_path / "broker.toml", {})
    assert container["args"] == ["run", "--config", "/etc/evermq/broker.toml"]
    assert config.tls.port == next(each["containerPort"] for each in container["ports"] if each["name"] == "mqs")
    mounted = [each["mountPath"] for each in container["volumeMounts"]]
    assert str(config.tls.certificate).rpartition("/")[0] in mounted
    (stateful,) = of("StatefulSet")
    grace = stateful["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert config.queue_manager.quiesce_timeout + 5 < grace
