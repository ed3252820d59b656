"""Logging in to Kubernetes: kubeconfigs, plugins, tokens that rotate, certificates, proxies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuctl.clients.kubernetes.credential_plugin import CredentialPlugin
from gpuctl.clients.kubernetes.login import LoginOptions, log_in
from gpuctl.clients.kubernetes.problems import ApiRefusedError, ForbiddenError
from gpuctl.errors import BackendError, ConfigError
from gpuctl.model.settings import KubernetesSettings
from tests.clients.kubernetes_clients import client_of, script_file, write_kubeconfig
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import FakeServer, Reply, ServerTls, script
from tests.fakes.kubernetes import TOKEN, FakeKubernetes, times
from tests.fakes.kubernetes_answers import NODES
from tests.fakes.kubernetes_objects import node_json
from tests.fakes.kubernetes_recordings import NOON

V1 = "client.authentication.k8s.io/v1"
CREDENTIAL = {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": TOKEN}}
SECRET = "s3cr3t-of-the-kubeconfig"


def exec_user(command: str, **more: Any) -> dict[str, Any]:
    return {"exec": {"command": command, "apiVersion": V1, **more}}


def prints(credential: object) -> str:
    return f"cat <<'END'\n{json.dumps(credential)}\nEND"


def failing(kubeconfig: str, **more: Any) -> BackendError:
    with client_of(kubeconfig, **more) as client, pytest.raises(BackendError) as caught:
        client.nodes()
    return caught.value


def everything(error: BaseException) -> str:
    return " ".join(
        str(part) for part in (error, getattr(error, "cause", ""), getattr(error, "hint", ""))
    )


def test_a_token_of_the_kubeconfig_is_sent(tmp_path: Path) -> None:
    with FakeKubernetes(NOON) as fake:
        fake.state.add(NODES, node_json("n1", {}))
        with client_of(fake.kubeconfig(tmp_path)) as client:
            assert [node.name for node in client.nodes()] == ["n1"]
        assert fake.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
        assert fake.requests[0].headers["accept-encoding"] == "gzip"


def test_a_plugin_gives_the_token(tmp_path: Path) -> None:
    plugin = script_file(tmp_path, prints(CREDENTIAL))
    with FakeKubernetes(NOON) as fake:
        path = fake.kubeconfig(tmp_path, exec_user(plugin, args=["get-token"]))
        with client_of(path) as client:
            assert client.version() == "v1.36.2"


def test_a_plugin_sees_its_environment_and_the_cluster(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    plugin = script_file(
        tmp_path,
        f'echo "$GIVEN $HERE $KUBERNETES_EXEC_INFO" > {seen}\n{prints(CREDENTIAL)}',
    )
    with FakeKubernetes(NOON) as fake:
        user = exec_user(plugin, env=[{"name": "GIVEN", "value": "yes"}], provideClusterInfo=True)
        environ = {"HERE": "too", "PATH": "/usr/bin:/bin"}
        with client_of(fake.kubeconfig(tmp_path, user), environ=environ) as client:
            client.version()
        said = seen.read_text()
        assert said.startswith("yes too ")
        info = json.loads(said.partition("{")[1] + said.partition("{")[2])
        assert info["spec"]["cluster"]["server"] == fake.url
        assert info["spec"]["interactive"] is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo 'SSO session expired' >&2; exit 3", "exit code 3: SSO session expired"),
        ("echo nonsense", "did not print an ExecCredential"),
        ("true", "printed nothing"),
        (prints({**CREDENTIAL, "status": {}}), "neither a token nor a certificate"),
        (prints({**CREDENTIAL, "status": None}), "neither a token nor a certificate"),
        (
            prints({**CREDENTIAL, "apiVersion": "client.authentication.k8s.io/v1beta1"}),
            "answers in version client.authentication.k8s.io/v1beta1",
        ),
    ],
)
def test_a_failing_plugin_is_no_anonymous_call(tmp_path: Path, text: str, expected: str) -> None:
    plugin = script_file(tmp_path, text)
    with FakeKubernetes(NOON) as fake:
        error = failing(
            fake.kubeconfig(tmp_path, exec_user(plugin)), environ={"PATH": "/usr/bin:/bin"}
        )
        assert fake.requests == []
    assert f"credential plugin {plugin} failed" in error.what
    assert expected in (error.cause or "")


def test_a_missing_plugin_says_how_to_install_it(tmp_path: Path) -> None:
    with FakeKubernetes(NOON) as fake:
        user = exec_user("no-such-plugin", installHint="install it from the portal")
        error = failing(fake.kubeconfig(tmp_path, user))
    assert error.cause == "there is no such program"
    assert error.hint == "install it from the portal"


def test_a_hanging_plugin_is_ended() -> None:
    plugin = CredentialPlugin(
        "/bin/sh", ("-c", "echo waiting for SSO >&2; exec sleep 600"), {}, V1, "", may_ask=False
    )
    with pytest.raises(BackendError) as caught:
        plugin.run({}, limit_seconds=0.2, is_interactive=False)
    assert "did not finish within 0.2s" in (caught.value.cause or "")


def test_an_expired_token_is_loaded_anew_once(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("old")
    with FakeKubernetes(NOON) as fake:
        path = fake.kubeconfig(tmp_path, {"tokenFile": str(token_file)})
        with client_of(path) as client:
            fake.tokens["old"] = "oncall"
            client.nodes()
            del fake.tokens["old"]
            token_file.write_text(TOKEN)
            client.nodes()
        assert [r.headers["authorization"] for r in fake.requests] == [
            "Bearer old",
            "Bearer old",
            f"Bearer {TOKEN}",
        ]


def test_a_token_that_stays_expired_is_an_error(tmp_path: Path) -> None:
    with FakeKubernetes(NOON) as fake:
        fake.tokens.clear()
        path = fake.kubeconfig(tmp_path)
        error = failing(path)
        assert len(fake.requests) == 2
    assert isinstance(error, ApiRefusedError)
    assert "does not accept the credentials" in error.what
    assert f"user oncall of {path}" in (error.cause or "")
    assert TOKEN not in everything(error)


def test_a_user_without_credentials_is_told_so(tmp_path: Path) -> None:
    with FakeKubernetes(NOON) as fake:
        error = failing(fake.kubeconfig(tmp_path, {}))
    assert isinstance(error, ForbiddenError)
    assert "anonymous" in error.what
    assert error.rule is None


def test_client_certificates_prove_who_we_are(
    tmp_path: Path, authority: CertificateAuthority
) -> None:
    server, client_pair = authority.issue("api"), authority.issue("oncall")
    tls = ServerTls(server.cert, server.key, client_ca=authority.cert)
    answer = Reply(body=b'{"gitVersion":"v1"}', content_type="application/json")
    with FakeServer(answer, tls=tls) as fake:
        user = {"client-certificate": client_pair.cert, "client-key": client_pair.key}
        path = write_kubeconfig(
            tmp_path, fake.url, user, **{"certificate-authority": authority.cert}
        )
        with client_of(path) as client:
            assert client.version() == "v1"
        nobody = write_kubeconfig(
            tmp_path, fake.url, {"token": "t"}, **{"certificate-authority": authority.cert}
        )
        # Whether the alert or the end of the connection is seen first is a matter of timing.
        failing(nobody)
        assert len(fake.requests) == 1


def test_an_unknown_authority_is_named_with_the_setting(
    tmp_path: Path, authority: CertificateAuthority
) -> None:
    pair = authority.issue("api")
    with FakeServer(Reply(), tls=ServerTls(pair.cert, pair.key)) as fake:
        error = failing(write_kubeconfig(tmp_path, fake.url, {"token": SECRET}))
    assert "not signed by a CA" in (error.cause or "")
    assert "certificate-authority" in (error.hint or "")
    assert SECRET not in everything(error)


def test_the_service_account_of_a_pod_is_used_inside(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "ca.crt").write_text("the CA")
    environ = {
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "HOME": "/x",
    }
    options = LoginOptions(environ, account_folder=str(tmp_path))
    for settings in (KubernetesSettings(in_cluster=True), KubernetesSettings()):
        login = log_in(settings, options)
        assert login.server == "https://10.0.0.1:443"
        assert login.authorization == f"bearer {TOKEN}"
        assert TOKEN not in repr(login)


def test_outside_a_pod_in_cluster_is_an_error() -> None:
    with pytest.raises(ConfigError, match="service account"):
        log_in(KubernetesSettings(in_cluster=True), LoginOptions({}))


def test_the_proxy_of_the_kubeconfig_wins(tmp_path: Path) -> None:
    def proxy_of(environ: dict[str, str], **cluster: object) -> Any:
        path = write_kubeconfig(tmp_path, "https://api.example:6443", {"token": "t"}, **cluster)
        login = log_in(KubernetesSettings(kubeconfig=path), LoginOptions(environ))
        return login.configuration.proxy

    theirs = {"HTTPS_PROXY": "http://company:3128"}
    assert proxy_of({}) is None
    assert proxy_of(theirs) == "http://company:3128"
    assert proxy_of(theirs | {"NO_PROXY": ".example"}) is None
    assert proxy_of(theirs, **{"proxy-url": "http://own:1080"}) == "http://own:1080"


def test_a_proxy_is_spoken_through(tmp_path: Path) -> None:
    answer = Reply(body=b'{"gitVersion":"v9"}', content_type="application/json")
    with FakeServer(answer) as proxy:
        path = write_kubeconfig(
            tmp_path, "http://api.example:6443", {"token": "t"}, **{"proxy-url": proxy.url}
        )
        with client_of(path) as client:
            assert client.version() == "v9"
        assert proxy.requests[0].headers["host"] == "api.example:6443"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not YAML"),
        ("", "empty"),
        ("[1]", "not shaped as a kubeconfig"),
        ("contexts: 5\nusers: []\nclusters: []", "not shaped as a kubeconfig"),
        ("contexts: []\nusers: []\nclusters: []", "no current-context"),
        (
            "current-context: x\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
            "clusters: [{name: c, cluster: {server: 'http://h'}}]\nusers: []",
            "no context x",
        ),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
            "clusters: [{name: c, cluster: {server: 'http://h'}}]\nusers: []",
            "a user that it does not define",
        ),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: nope}}]\n"
            "clusters: []\nusers: []",
            "a cluster that it does not define",
        ),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
            "clusters: [{name: c, cluster: {server: 'http://h'}}]\n"
            f"users: [{{name: u, user: {{exec: {{args: [{SECRET}]}}}}}}]",
            "not shaped as a kubeconfig",
        ),
    ],
)
def test_a_broken_kubeconfig_is_named_without_its_secrets(
    tmp_path: Path, text: str, expected: str
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        log_in(KubernetesSettings(kubeconfig=str(path)), LoginOptions({}))
    assert str(path) in caught.value.what
    assert expected in (caught.value.cause or "")
    assert SECRET not in everything(caught.value)


def test_broken_yaml_with_a_token_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(f"users:\n- user: {{token: {SECRET}\n- x")
    with pytest.raises(ConfigError) as caught:
        log_in(KubernetesSettings(kubeconfig=str(path)), LoginOptions({}))
    assert SECRET not in everything(caught.value)


def test_a_missing_kubeconfig_says_where_one_may_be_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        log_in(KubernetesSettings(), LoginOptions({"HOME": str(tmp_path)}))
    assert f"{tmp_path}/.kube/config" in caught.value.what
    assert "--kubeconfig" in (caught.value.hint or "")


def test_kubeconfig_of_the_environment_and_another_context(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for path, name in ((first, "one"), (second, "two")):
        path.write_text(
            json.dumps(
                {
                    "current-context": name,
                    "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"}}],
                    "users": [{"name": name, "user": {"token": name}}],
                    "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
                }
            )
        )
    environ = {"KUBECONFIG": f"{first}:{second}"}
    login = log_in(KubernetesSettings(context="one"), LoginOptions(environ))
    assert (login.server, login.authorization) == ("https://one:6443", "Bearer one")
    login = log_in(KubernetesSettings(context="two"), LoginOptions(environ))
    assert login.server == "https://two:6443"


def test_a_plugin_runs_anew_after_a_401(tmp_path: Path) -> None:
    plugin = script_file(tmp_path, f"echo >> {tmp_path}/runs\n{prints(CREDENTIAL)}")
    good = Reply(body=b'{"gitVersion":"v1"}', content_type="application/json")
    with FakeServer(script(Reply(401, b"{}"), good)) as server:
        path = write_kubeconfig(tmp_path, server.url, exec_user(plugin))
        with client_of(path, environ={"PATH": "/usr/bin:/bin"}) as client:
            assert client.version() == "v1"
    assert (tmp_path / "runs").read_text() == "\n\n"


def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    status = {"clientCertificateData": "PEM of a certificate", "clientKeyData": "PEM of its key"}
    plugin = script_file(tmp_path, prints({**CREDENTIAL, "status": status}))
    path = write_kubeconfig(tmp_path, "https://api.example:6443", exec_user(plugin))
    options = LoginOptions({"PATH": "/usr/bin:/bin"})
    login = log_in(KubernetesSettings(kubeconfig=path), options)
    assert login.authorization is None
    assert Path(login.configuration.cert_file).read_text() == "PEM of a certificate"
    assert Path(login.configuration.key_file).read_text() == "PEM of its key"


def test_a_token_of_the_user_goes_before_the_plugin(tmp_path: Path) -> None:
    """As the official library has it; the plugin is not even run."""
    user = {"token": "given", **exec_user("no-such-plugin")}
    path = write_kubeconfig(tmp_path, "https://api.example:6443", user)
    login = log_in(KubernetesSettings(kubeconfig=path), LoginOptions({}))
    assert login.authorization == "Bearer given"


def test_unchecked_certificates_are_said_once(
    tmp_path: Path, authority: CertificateAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    pair = authority.issue("api")
    good = Reply(body=b'{"gitVersion":"v1"}', content_type="application/json")
    with FakeServer(good, tls=ServerTls(pair.cert, pair.key)) as server:
        path = write_kubeconfig(
            tmp_path, server.url, {"token": "t"}, **{"insecure-skip-tls-verify": True}
        )
        with client_of(path) as client:
            client.version()
            client.version()
    assert caplog.text.count("TLS certificates are NOT checked") == 1


def test_no_log_holds_the_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with FakeKubernetes(NOON) as fake:
        fake.intercept = times(1, Reply(503), lambda request: True)
        with client_of(fake.kubeconfig(tmp_path)) as client:
            client.pods()
    assert "answer method=GET" in caplog.text
    assert "retry" in caplog.text
    assert TOKEN not in caplog.text
