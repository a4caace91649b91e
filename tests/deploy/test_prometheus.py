"""The alerts and the dashboard name metrics that a server has, and each alert fires when it should and only then."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.broker.shorthand import ack, pop, push

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
DASHBOARD = DEPLOY / "grafana" / "queen.json"
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
OF_PROMETHEUS = {"instance", "pod", "job", "le"}  # labels that every server's metrics may have there
LABELS = re.compile(r"(?:by|without) \(([^)]*)\)|\{\{ ?(?:\$labels\.)?(\w+) ?\}\}|(\w+)[!=]~?\"")

# An alert, how many minutes pass, what it sees when all is well and when it fires, and the labels that it has then.
SERVER = 'instance="a:6632"'
CASES = {
    "QueenServerDown": (2, {'up{job="queen"}': ("1x60", "0x60")}, {"job": "queen"}),
    "QueenDatabaseAway": (2, {f"queen_database_available{{{SERVER}}}": ("1x60", "0x60")}, {"instance": "a:6632"}),
    "QueenDatabaseRestarted": (
        10, {f"queen_database_running_since_seconds{{{SERVER}}}": ("5x60", "5x5 9x60")}, {},
    ),
    "QueenLedgerDifference": (
        5, {f'queen_ledger_difference_messages{{queue="q",{SERVER}}}': ("0x60", "2x60")}, {"queue": "q"},
    ),
    "QueenErrors": (
        20,
        {
            f'queen_request_seconds_count{{status="503",{SERVER}}}': ("0x60", "0+2x60"),
            f'queen_request_seconds_count{{status="200",{SERVER}}}': ("0+60x60", "0+60x60"),
        },
        {"instance": "a:6632"},
    ),
    "QueenGroupBehind": (
        10, {f'queen_group_lag_seconds{{queue="q",group="g",{SERVER}}}': ("30x60", "901x60")},
        {"queue": "q", "group": "g"},
    ),
    "QueenGroupFallsBehind": (
        120, {f'queen_group_lag_messages{{queue="q",group="g",{SERVER}}}': ("9000-10x200", "2000+10x200")},
        {"queue": "q", "group": "g"},
    ),
    "QueenUnread": (10, {f'queen_unread_seconds{{queue="q",{SERVER}}}': ("60x60", "3601x60")}, {"queue": "q"}),
    "QueenQueueNearlyFull": (
        10,
        {
            f'queen_queue_depth{{queue="q",{SERVER}}}': ("10x60", "91x60"),
            f'queen_queue_limit{{queue="q",{SERVER}}}': ("100x60", "100x60"),
        },
        {"queue": "q"},
    ),
    "QueenDeadLetters": (
        20, {f'queen_dead_letters{{queue="q",{SERVER}}}': ("3x60", "3x15 4x60")}, {"queue": "q"},
    ),
    "QueenSpoolNotEmpty": (15, {f"queen_spool_messages{{{SERVER}}}": ("0x60", "1x60")}, {"instance": "a:6632"}),
    "QueenSpoolRefused": (
        5, {f"queen_spool_refused_messages{{{SERVER}}}": ("0x60", "1x60")}, {"instance": "a:6632"},
    ),
    "QueenStandbyLagging": (
        10,
        {
            f'queen_standby_missing_bytes{{standby="s",{SERVER}}}': ("0x60", "200000000x60"),
            f'queen_standby_silent_seconds{{standby="s",{SERVER}}}': ("1x60", "1x60"),
        },
        {"standby": "s"},
    ),
    "QueenStandbyGone": (
        75, {f'queen_standby_missing_bytes{{standby="s",{SERVER}}}': ("0x200", "0x60 _x100")}, {"standby": "s"},
    ),
    "QueenDatabaseSlow": (
        30,
        {
            f'queen_database_call_seconds_bucket{{le="1.0",{SERVER}}}': ("0+60x60", "0x60"),
            f'queen_database_call_seconds_bucket{{le="2.5",{SERVER}}}': ("0+60x60", "0+60x60"),
            f'queen_database_call_seconds_bucket{{le="+Inf",{SERVER}}}': ("0+60x60", "0+60x60"),
        },
        {"instance": "a:6632"},
    ),
    "QueenRequestsWait": (
        30,
        {
            f'queen_queue_wait_seconds_bucket{{operation="push",le="1.0",{SERVER}}}': ("0+60x60", "0x60"),
            f'queen_queue_wait_seconds_bucket{{operation="push",le="2.5",{SERVER}}}': ("0+60x60", "0+60x60"),
            f'queen_queue_wait_seconds_bucket{{operation="push",le="+Inf",{SERVER}}}': ("0+60x60", "0+60x60"),
        },
        {"instance": "a:6632", "operation": "push"},
    ),
}  # fmt: skip


def alerts():
    return yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]


def expressions():
    """All that the dashboard asks Prometheus."""
    dashboard = json.loads(DASHBOARD.read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    return shown + [each["expr"] for each in dashboard["annotations"]["list"]]


def promtool(*arguments):
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: it is in Debian's package prometheus")
    ended = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture
async def metrics(serve):
    """The names of a running server's metrics, and the labels of those that have any now."""
    server = await serve()
    async with server.client() as http:
        await http.post("/configure", json={"queue": "orders", "options": {"maxSize": 100}})
        await push(http, "orders", 1, 2)
        (message,) = (await pop(http, "orders", consumerGroup="g"))["messages"]
        await ack(http, message, status="dlq")
        await push(http, "unread", 1)
        text = (await http.get(f"{server.url}/metrics/prometheus")).text
    families = list(text_string_to_metric_families(text))
    names = {f"{family.name}{suffix}" for family in families for suffix in SUFFIXES[family.type]}
    return names, {label for family in families for sample in family.samples for label in sample.labels}


async def test_every_metric_and_label_that_is_named_exists_on_a_server(metrics):
    names, labels = metrics
    told = ALERTS.read_text() + "\n".join(expressions()) + json.dumps(json.loads(DASHBOARD.read_text())["templating"])
    assert set(re.findall(r"\bqueen_\w+", told)) - names == set()
    legends = [target["legendFormat"] for panel in json.loads(DASHBOARD.read_text())["panels"]
               for target in panel.get("targets", ())]  # fmt: skip
    named = {
        label.strip()
        for found in LABELS.findall(told + "\n".join(legends))
        for label in ",".join(found).split(",")
        if label.strip()
    }
    assert named - labels - OF_PROMETHEUS == {"standby"}  # the server of this test has none


def test_prometheus_understands_the_example_the_alerts_and_the_dashboard(tmp_path):
    example = ALERTS.with_name("prometheus.yaml")
    promtool("check", "config", "--syntax-only", example)  # the token is not on this machine
    assert yaml.safe_load(example.read_text())["scrape_configs"][0]["job_name"] == "queen"
    promtool("check", "rules", ALERTS)
    rules = [
        {"record": f"shown:{number}", "expr": text.replace("$__rate_interval", "5m").replace("$instance", ".*")}
        for number, text in enumerate(expressions())
    ]
    file = tmp_path / "dashboard.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", file)


@pytest.mark.parametrize("alert", [each["alert"] for each in alerts()])
def test_an_alert_fires_when_it_should_and_only_then(alert, tmp_path):
    minutes, series, labels = CASES[alert]
    severity = next(each["labels"]["severity"] for each in alerts() if each["alert"] == alert)
    shown = {"alertname": alert, "alertstate": "firing", "severity": severity, **labels}
    firing = "{" + ", ".join(f'{name}="{value}"' for name, value in shown.items()) + "}"
    tests = []
    for index, expected in enumerate(([], [{"labels": f"ALERTS{firing}", "value": 1}])):
        expression = f'ALERTS{{alertname="{alert}", alertstate="firing"}}'
        tests.append({
            "interval": "1m",
            "input_series": [{"series": name, "values": values[index]} for name, values in series.items()],
            "promql_expr_test": [{"expr": expression, "eval_time": f"{minutes}m", "exp_samples": expected}],
        })  # fmt: skip
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", file)


def test_every_panel_has_a_unit_and_says_what_it_shows():
    panels = [each for each in json.loads(DASHBOARD.read_text())["panels"] if each["type"] != "row"]
    assert [each["title"] for each in panels if not each["description"]] == []
    assert [each["title"] for each in panels if not each["fieldConfig"]["defaults"]["unit"]] == []
    cells = [(each["gridPos"]["x"] + x, each["gridPos"]["y"] + y) for each in panels
             for x in range(each["gridPos"]["w"]) for y in range(each["gridPos"]["h"])]  # fmt: skip
    assert len(cells) == len(set(cells))
