"""Lints a Helm chart, installs it into something that plays the Kubernetes API, and checks all that Helm sent there
against the schemas of Kubernetes.

    HELM_DRIVER=memory helm.py CHART VALUES
"""

import asyncio
import itertools
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import helm_sdkpy
import kubernetes_validate
import yaml

VERSIONS = ("1.30", "1.36")
NUMBERS = itertools.count(1)
KINDS = {
    ("", "v1"): {"secrets": "Secret", "services": "Service"},
    ("apps", "v1"): {"deployments": "Deployment"},
    ("networking.k8s.io", "v1"): {"ingresses": "Ingress"},
    ("policy", "v1"): {"poddisruptionbudgets": "PodDisruptionBudget"},
}


class Api(BaseHTTPRequestHandler):
    """As much of the API as Helm needs to install something: discovery, and objects that can be created."""

    protocol_version = "HTTP/1.1"
    objects = {}

    def do_GET(self):
        path = self.path.split("?")[0].rstrip("/")
        groups = [group for group, _ in KINDS if group]
        if path == "/version":
            self.answer({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
        elif path == "/api":
            self.answer({"kind": "APIVersions", "versions": ["v1"]})
        elif path == "/apis":
            versions = [{"groupVersion": f"{group}/v1", "version": "v1"} for group in groups]
            found = zip(groups, versions, strict=True)
            self.answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {"name": group, "versions": [version], "preferredVersion": version} for group, version in found]})
        elif path == "/api/v1":
            self.answer(resources("", "v1"))
        elif path in {f"/apis/{group}/v1" for group in groups}:
            self.answer(resources(path.split("/")[2], "v1"))
        elif path in self.objects:
            self.answer(self.objects[path])
        elif path.endswith(("/secrets", "/pods")):
            self.answer({"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": []})
        else:
            self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}, 404)

    def do_POST(self):
        body = self.body()
        self.objects[f"{self.path.split('?')[0]}/{body['metadata']['name']}"] = body
        self.answer(body, 201)

    def do_PUT(self):
        body = self.body()
        self.objects[self.path.split("?")[0]] = body
        self.answer(body)

    do_PATCH = do_PUT

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body, status=200):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments):
        pass


def resources(group, version):
    name = f"{group}/{version}" if group else version
    verbs = ["create", "delete", "get", "list", "patch", "update"]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": [
        {"name": plural, "singularName": "", "namespaced": True, "kind": kind, "verbs": verbs}
        for plural, kind in KINDS[group, version].items()]}


async def install(config, chart, values):
    """What Helm sends for these values."""
    Api.objects.clear()
    await helm_sdkpy.Install(config).run(f"trial-{next(NUMBERS)}", chart, values=values, wait=False)
    return list(Api.objects.values())


async def must_fail(config, chart, values, reason):
    try:
        await install(config, chart, values)
    except helm_sdkpy.HelmError as error:
        assert reason in str(error), error
    else:
        raise AssertionError(f"{values} is accepted, though {reason}")


async def check(chart, values):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cluster = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [
        {"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}], "clusters": [
        {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}]}
    config = helm_sdkpy.Configuration(kubeconfig=yaml.safe_dump(cluster))

    messages = await helm_sdkpy.Lint(config).run(chart)
    assert not messages["Errors"], messages

    whole = await install(config, chart, values)
    kinds = sorted(o["kind"] for o in whole)
    wanted = ["Deployment", "Deployment", "Ingress", "PodDisruptionBudget", "Secret", "Service"]
    assert kinds == wanted, kinds
    existing = await install(config, chart, {"existingSecret": "mine"})
    assert sorted(o["kind"] for o in existing) == [k for k in wanted if k not in ("Ingress", "Secret")], existing
    for each in whole + existing:
        for version in VERSIONS:
            kubernetes_validate.validate(each, version, strict=True)
    for each in (o for o in whole if o["kind"] == "Deployment"):
        container = each["spec"]["template"]["spec"]["containers"][0]
        probes = [container[p]["httpGet"]["path"] for p in ("livenessProbe", "readinessProbe")]
        assert probes == ["/healthz", "/readyz"], probes

    await must_fail(config, chart, {}, "set secrets.")
    await must_fail(config, chart, {**values, "replicas": 3}, "replicas")
    await must_fail(config, chart, {**values, "settings": {"SITE_URL": "x"}}, "SITE_URL")
    print(f"{len(whole)} objects are valid in Kubernetes {' and '.join(VERSIONS)}")


if __name__ == "__main__":
    with open(sys.argv[2]) as file:
        asyncio.run(check(sys.argv[1], yaml.safe_load(file)))
