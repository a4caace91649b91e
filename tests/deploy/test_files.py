"""The files in deploy/ do what they say: checked by the programs that read them, and on a real server."""

import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from queenmq.config import Settings
from tests.broker.shorthand import ack, pop, push

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text()
KUBERNETES = "1.33"  # the version of its API
MANIFESTS = [each for name in ("queen", "consumer")
             for each in yaml.safe_load_all((DEPLOY / "kubernetes" / f"{name}.yaml").read_text())]  # fmt: skip
SCALED = [each for each in MANIFESTS if each["kind"] == "ScaledObject"]
STOP_SECONDS_MAX = Settings.load({}).stop_seconds_max


def instructions(name):
    return re.findall(rf"^{name} (.+)$", DOCKERFILE, re.MULTILINE)


def run(*command):
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return ended.returncode, ended.stdout + ended.stderr


async def test_the_health_check_of_the_image_follows_the_server(serve):
    server = await serve()
    (line,) = instructions("HEALTHCHECK")
    python, *arguments = json.loads(line[line.index("[") :])
    assert python == "python"
    check = [
        sys.executable,
        *(each.replace("127.0.0.1:6632", server.url.removeprefix("http://")) for each in arguments),
    ]
    assert run(*check) == (0, "")
    await server.stop()
    assert run(*check)[0] == 1


def test_the_image_is_made_of_files_that_are_there_and_runs_without_root():
    copied = [name for line in instructions("COPY") if not line.startswith("--from") for name in line.split()[:-1]]
    assert "requirements-server.lock" in copied
    ignored = (ROOT / ".dockerignore").read_text().split()
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name.removeprefix('./')}" in ignored
    (user,) = instructions("USER")
    assert int(user) > 0
    assert len(instructions("FROM")) == 2


def test_settings_in_all_files_exist_and_are_of_their_kind():
    told = "\n".join(path.read_text() for path in DEPLOY.rglob("*") if path.is_file() and "spark" not in path.parts)
    known = {f"QUEEN_{name.upper()}" for name in Settings.__struct_fields__}
    assert set(re.findall(r"QUEEN_[A-Z_]+", told)) - known == set()
    environment = [each for manifest in MANIFESTS if manifest["kind"] == "Deployment"
                   for each in manifest["spec"]["template"]["spec"]["containers"][0]["env"]]  # fmt: skip
    Settings.load({each["name"]: each["value"] for each in environment if "value" in each})


def test_compose_waits_for_postgres_and_asks_for_secrets():
    services = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())["services"]
    assert services["postgres"]["image"] == "postgres:18"
    assert services["queen"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert (DEPLOY / "docker" / services["queen"]["build"]["context"]).resolve() == ROOT
    assert (ROOT / services["queen"]["build"]["dockerfile"]).exists()
    assert ":?" in services["queen"]["environment"]["QUEEN_AUTH_SECRET"]
    assert ":?" in services["postgres"]["environment"]["POSTGRES_PASSWORD"]
    assert int(services["queen"]["stop_grace_period"].removesuffix("s")) > STOP_SECONDS_MAX


def test_systemd_understands_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: it is in Debian's package systemd")
    text = (DEPLOY / "systemd" / "queen.service").read_text()
    command = re.search(r"^ExecStart=(\S+) serve$", text, re.MULTILINE)[1]
    unit = tmp_path / "queen.service"
    unit.write_text(text.replace(command, sys.executable))  # a program that is there
    status, said = run("systemd-analyze", "verify", "--man=no", str(unit))
    assert (status, [line for line in said.splitlines() if "queen" in line]) == (0, [])
    seconds = re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[1]
    assert int(seconds) > STOP_SECONDS_MAX
    status, said = run("systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit))
    assert status == 0, said


@pytest.mark.parametrize("manifest", [each for each in MANIFESTS if each not in SCALED],
                         ids=lambda each: f"{each['kind']} {each['metadata']['name']}")  # fmt: skip
def test_kubernetes_understands_a_manifest(manifest):
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest | {"spec": manifest["spec"] | {"nonsense": 1}}, KUBERNETES, strict=True)


def test_a_pod_is_stopped_only_after_its_requests_are_answered():
    (pod,) = [each["spec"]["template"]["spec"] for each in MANIFESTS
              if each["kind"] == "Deployment" and each["metadata"]["name"] == "queen"]  # fmt: skip
    (container,) = pod["containers"]
    _, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert pod["terminationGracePeriodSeconds"] > int(seconds) + STOP_SECONDS_MAX


async def test_probes_ask_a_server_what_it_answers(serve):
    server = await serve()
    asked = []
    for manifest in MANIFESTS:
        for container in manifest.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            asked += [probe["httpGet"]["path"] for name, probe in container.items() if name.endswith("Probe")]
            ports = {each["name"]: each["containerPort"] for each in container.get("ports", ())}
            assert ports in ({}, {"http": Settings.load({}).port})
    async with server.client(base_url=server.url) as http:
        assert [(await http.get(path)).status_code for path in asked] == [200] * 3


def test_keda_scales_what_is_there_by_a_metric_of_the_consumers_group():
    (scaled,) = SCALED
    assert scaled["apiVersion"] == "keda.sh/v1alpha1"
    deployments = [each["metadata"]["name"] for each in MANIFESTS if each["kind"] == "Deployment"]
    assert scaled["spec"]["scaleTargetRef"]["name"] in deployments
    (trigger,) = scaled["spec"]["triggers"]
    assert set(trigger["metadata"]) == {"serverAddress", "query", "threshold"}
    assert all(isinstance(value, str) for value in trigger["metadata"].values())  # as KEDA wants them
    assert set(re.findall(r"(\w+)=", trigger["metadata"]["query"])) == {"queue", "group"}


async def test_a_server_works_behind_pgbouncer_with_the_settings_of_the_example(serve, database, start_pooler):
    example = configparser.ConfigParser(comment_prefixes=(";",))
    example.read(DEPLOY / "pgbouncer" / "pgbouncer.ini")
    given = dict(example["pgbouncer"])
    for of_the_place in ("listen_addr", "listen_port", "auth_type", "auth_file"):
        del given[of_the_place]
    status, said = run("/usr/sbin/pgbouncer", "--version")
    if status or tuple(map(int, re.findall(r"\d+", said)[:2])) < (1, 21):
        del given["max_prepared_statements"]
    pooler = start_pooler(given.pop("pool_mode"), **given)
    server = await serve(dsn=pooler.dsn, session_dsn=database)
    async with server.client() as http:
        await push(http, "orders", 1)
        (message,) = (await pop(http, "orders"))["messages"]
        await ack(http, message)
    assert "WARNING" not in pooler.log


def test_the_members_of_a_patroni_cluster_lose_nothing():
    shown = (ROOT / "docs" / "high-availability.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    rules = yaml.safe_load((DEPLOY / "patroni" / "node1.yaml").read_text())["bootstrap"]["dcs"]
    for name, value in yaml.safe_load(shown).items():
        if name == "postgresql":
            assert rules[name]["parameters"].items() >= value["parameters"].items()
        else:
            assert rules[name] == value
    assert "synchronous_standby_names" not in rules["postgresql"]["parameters"]  # Patroni sets it


def test_every_file_is_named_in_the_documentation():
    told = (ROOT / "docs" / "deployment.md").read_text()
    files = [path.relative_to(ROOT) for path in DEPLOY.rglob("*") if path.is_file() and "spark" not in path.parts]
    assert [str(path) for path in files if str(path) not in told] == []
