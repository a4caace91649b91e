"""What a page of another origin can do to a server, tried in a real browser: nothing."""

import json
import re
from collections import Counter

import httpx
import pytest

from tests.broker.hostile import FROM_PAGES
from tests.waits import until_now

POSTED = ["fetch", "xhr", "beacon", "form", "sandboxed form"]  # ways to send a POST without asking the server first
LOADED = ["image", "fetch", "script", "style", "frame", "event source", "web socket", "video", "prefetch", "link"]

# Each one sends a request to `url`. `body` is what a POST carries; a form sends it as `name=value`.
WAYS = {
    "fetch": "fetch(url, body ? {method: 'POST', mode: 'no-cors', body} : {mode: 'no-cors'}).catch(() => 0)",
    "cors fetch": "fetch(url, {method: 'POST', body, headers: {'content-type': 'application/json'}}).catch(() => 0)",
    "xhr": "const x = new XMLHttpRequest(); x.open('POST', url); x.send(body)",
    "beacon": "navigator.sendBeacon(url, body)",
    "form": "add('iframe', {srcdoc: form})",
    "sandboxed form": "add('iframe', {srcdoc: form, sandbox: 'allow-scripts allow-forms'})",
    "image": "add('img', {src: url})",
    "script": "add('script', {src: url})",
    "style": "add('link', {rel: 'stylesheet', href: url})",
    "frame": "add('iframe', {src: url})",
    "event source": "new EventSource(url)",
    "web socket": "new WebSocket(url.replace('http', 'ws'))",
    "video": "add('video', {src: url, preload: 'auto'})",
    "prefetch": "add('link', {rel: 'prefetch', href: url})",
    "link": "add('a', {href: url, target: '_blank'}).click()",
}
TRY = """([url, body, name, value]) => {
  const add = (tag, attributes) => {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return document.body.appendChild(made);
  };
  const form = `<form id=f method=post enctype=text/plain action='${url}'></form><script>
    const i = document.createElement('input'); i.name = ${JSON.stringify(name)}; i.value = ${JSON.stringify(value)};
    f.append(i); f.submit()</script>`;
  %s
}"""


@pytest.fixture(scope="module")
def settings(elsewhere):
    return {"access_log": True, "hosts": "queen.example", "cors_origins": f"http://shop.example:{elsewhere.port}"}


@pytest.fixture
def api(server):
    with httpx.Client(base_url=f"{server.url}/api/v1", timeout=60) as client:
        yield client


@pytest.fixture(scope="module", params=["another site", "another port"])
def page(request, browser, elsewhere):
    """A page of another origin, far away or next door."""
    with browser.new_context() as context:
        opened = context.new_page()
        opened.goto(elsewhere.url if request.param == "another site" else elsewhere.neighbour)
        yield opened


def attempt(page, way, url, body=None):
    text = "" if body is None else json.dumps(body)
    name, value = (text[:-2], '"]') if isinstance(body, list) else (f'{text[:-1]}, "x":"', '"}')
    page.evaluate(TRY % WAYS[way], [url, text or None, name, value])


def status(server, method, path):
    """How the server answered a request; waits until it has."""
    line = re.compile(rf'method="{method}" path="{re.escape(path)}" status=(\d+)')
    return int(until_now(f"{method} {path} is answered", lambda: line.search(server.log))[1])


def push(api, queue, *payloads):
    answer = api.post("/push", json={"items": [{"queue": queue, "payload": payload} for payload in payloads]})
    assert answer.status_code == 201


def popped(api, queue, **query):
    answer = api.get(f"/pop/queue/{queue}", params={"batch": 10, "empty": 200, **query})
    return [message["data"] for message in answer.json()["messages"]]


def test_a_page_takes_no_message(server, api, page, queue):
    paths = {way: f"/api/v1/pop/queue/{queue}-{way.replace(' ', '-')}" for way in LOADED}
    for way, path in paths.items():
        push(api, path.rpartition("/")[2], way)
        attempt(page, way, f"{server.url}{path}?autoAck=true")
    assert {way: status(server, "GET", path) for way, path in paths.items()} == dict.fromkeys(LOADED, 403)
    for way, path in paths.items():
        assert popped(api, path.rpartition("/")[2]) == [way]


def test_a_page_pushes_nothing(server, api, page, queue):
    paths = {way: f"/api/v1/push/queue/{queue}/partition/{way.replace(' ', '-')}" for way in POSTED}
    for way, path in paths.items():
        attempt(page, way, f"{server.url}{path}", ["forged"])
    assert {way: status(server, "POST", path) for way, path in paths.items()} == dict.fromkeys(POSTED, 403)
    assert popped(api, queue) == []


def test_a_page_moves_no_group(server, api, page, queue):
    push(api, queue, 1)
    groups = [way.replace(" ", "-") for way in POSTED]
    for way, group in zip(POSTED, groups, strict=True):
        assert popped(api, queue, consumerGroup=group) == [1]
        attempt(page, way, f"{server.url}/api/v1/consumer-groups/{group}/queues/{queue}/seek", {"toEnd": True})
    paths = [f"/api/v1/consumer-groups/{group}/queues/{queue}/seek" for group in groups]
    assert {status(server, "POST", path) for path in paths} == {403}
    lags = {each["name"]: each["totalLag"] for each in api.get("/consumer-groups").json() if each["queueName"] == queue}
    assert lags == dict.fromkeys(groups, 1)


def test_a_page_that_asks_first_is_told_no(server, api, page, queue):
    path = f"/api/v1/push/queue/{queue}"
    attempt(page, "cors fetch", f"{server.url}{path}", ["forged"])
    assert status(server, "OPTIONS", path) == 403
    assert popped(api, queue) == []


def test_a_page_reads_nothing(server, page):
    read = page.evaluate("url => fetch(url).then(r => r.text()).catch(() => null)", f"{server.url}/health")
    assert read is None


def test_a_page_of_an_allowed_origin_uses_the_server(server, api, browser, elsewhere, queue):
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"http://shop.example:{elsewhere.port}")
        headers = {"authorization": "Bearer x", "content-type": "application/json"}
        script = """([url, options]) => fetch(url, {credentials: 'include', ...options})
          .then(async answer => [answer.status, answer.headers.get('allow'), await answer.json()])"""
        told = page.evaluate(
            script, [f"{server.url}/api/v1/push/queue/{queue}", {"method": "POST", "headers": headers, "body": "[7]"}]
        )
        assert (told[0], told[2]["queueName"]) == (201, queue)
        told = page.evaluate(script, [f"{server.url}/api/v1/push", {"headers": headers}])
        assert (told[0], told[1], told[2]["code"]) == (405, "POST", "METHOD_NOT_ALLOWED")
    assert popped(api, queue) == [7]


def test_a_name_that_leads_here_is_not_this_server(server, api, browser, queue):
    """DNS rebinding: to the browser, the page and the server are one origin."""
    push(api, queue, 1)
    rebound = server.url.replace("127.0.0.1", "rebind.example")
    with browser.new_context() as context:
        page = context.new_page()
        answer = page.goto(f"{rebound}/docs")
        assert (answer.status, answer.json()["code"]) == (421, "UNKNOWN_HOST")
        for method, path, body in (
            ("GET", f"/api/v1/pop/queue/{queue}?autoAck=true", None),
            ("GET", "/api/v1/resources/queues", None),
            ("POST", "/api/v1/push", json.dumps({"items": [{"queue": queue, "payload": "forged"}]})),
            ("DELETE", f"/api/v1/resources/queues/{queue}", None),
        ):
            script = "([url, method, body]) => fetch(url, {method, body}).then(r => r.status)"
            assert page.evaluate(script, [f"{rebound}{path}", method, body]) == 421
    assert popped(api, queue) == [1]


def test_a_link_leads_to_the_page_of_calls(server, page):
    with page.context.expect_page() as opened:
        attempt(page, "link", f"{server.url}/docs")
    opened.value.wait_for_selector("summary")
    assert opened.value.title() == "Queen: the API"


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "queen.example"])
def test_the_servers_own_page_can_use_it(server, api, browser, queue, name):
    path = "/api/v1/push/queue/{queue}"
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{server.url.replace('127.0.0.1', name)}/docs")
        call = page.locator("details", has_text=path).filter(has_not_text="{partition}").first
        call.locator("summary").click()
        call.locator("input").first.fill(queue)
        call.locator("textarea").fill('["by hand"]')
        with page.expect_response(lambda answer: answer.url.endswith(f"/push/queue/{queue}")) as answer:
            call.locator("button").click()
        assert answer.value.status == 201
    assert popped(api, queue) == ["by hand"]


def test_whatever_a_page_sends_is_refused(server, browser, elsewhere):
    """Whatever a browser lets a page send, in all modes, methods and content types."""
    script = """async ([url, count]) => {
      const pick = (list, n) => list[n % list.length];
      const paths = ['/api/v1/push', '/api/v1/pop/queue/q?autoAck=true', '/health', '/docs', '/', '/%ff'];
      const one = n => fetch(url + pick(paths, n), {
        mode: pick(['no-cors', 'cors'], n >> 1), method: pick(['GET', 'POST', 'HEAD', 'PUT', 'DELETE'], n >> 2),
        credentials: pick(['include', 'omit'], n >> 3), redirect: pick(['follow', 'manual'], n >> 4),
        headers: pick([{}, {'content-type': 'text/plain'}, {'content-type': 'application/json'}, {'x-y': 'z'}], n),
        ...(pick([0, 1, 0, 0, 0], n >> 2) ? {body: pick(['{}', 'x=y', new Uint8Array(2000), ''], n)} : {}),
      }).then(answer => answer.type, () => 'refused');
      const answers = [];
      for (let n = 0; n < count; n += 50)
        answers.push(...await Promise.all(Array.from({length: 50}, (_, each) => one(n + each))));
      return answers;
    }"""
    before = answered(server)
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(elsewhere.url)
        answers = page.evaluate(script, [server.url, 2 * FROM_PAGES])
    assert set(answers) <= {"opaque", "opaqueredirect", "refused"}  # nothing that the page could read
    found = answered(server) - before
    assert set(found) <= {"400", "403", "404", "405"}
    assert found.total() >= FROM_PAGES


def answered(server):
    """How many requests the server has answered, by status."""
    line = re.compile(r'queen_request_seconds_count\{.*status="(\d+)"\} ([\d.]+)')
    found = Counter()
    for status, count in line.findall(httpx.get(f"{server.url}/metrics/prometheus").text):
        found[status] += int(float(count))
    return found - Counter({"200": found["200"]})
