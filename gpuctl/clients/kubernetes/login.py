"""From a kubeconfig, or a pod's own service account, to an address and proof of who we are.

The official library reads the kubeconfig and makes certificates, tokens and proxies of it. What it
would do silently is decided here: which file, whether a login failed, and which proxy.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuctl.clients.connection import address, proxy_for
from gpuctl.clients.faults import shortened
from gpuctl.clients.kubernetes.credential_plugin import CredentialPlugin
from gpuctl.errors import BackendError, ConfigError, shorten
from gpuctl.model.settings import KubernetesSettings

_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_HOST_VARIABLE = "KUBERNETES_SERVICE_HOST"
_DEFAULT_KUBECONFIG = "~/.kube/config"
#: Settings of a user of which one must have led to a token or a certificate.
_WAYS = (
    "auth-provider",
    "token",
    "tokenFile",
    "exec",
    "username",
    "client-certificate",
    "client-certificate-data",
)


@dataclass(frozen=True, slots=True)
class Login:
    """Where the API is and who we are. `configuration` is the library's own and holds secrets.

    `who` says for messages where the credential comes from.
    """

    configuration: Any = field(repr=False)
    who: str

    @property
    def server(self) -> str:
        """The API's address without user, password or query."""
        return address(str(self.configuration.host), setting="the server of the cluster").shown

    @property
    def authorization(self) -> str | None:
        """The Authorization header, None when a certificate (or nothing) says who we are."""
        value = self.configuration.api_key.get("BearerToken")
        return None if value is None else str(value).strip()


@dataclass(frozen=True, slots=True)
class LoginOptions:
    """What a login may use of the world. A plugin gets `plugin_seconds` to finish.

    `is_interactive`: a person is at the terminal, whom a plugin may ask.
    """

    environ: Mapping[str, str] = field(repr=False)
    plugin_seconds: float = 60.0
    is_interactive: bool = False
    account_folder: str = _ACCOUNT_FOLDER


def log_in(settings: KubernetesSettings, options: LoginOptions) -> Login:
    """Credentials as they are now: files are read anew, a credential plugin is run anew.

    Without a named kubeconfig: KUBECONFIG, else ~/.kube/config, else, inside a pod, its service
    account. Raises ConfigError for what the files say wrongly, BackendError for a failed login.
    """
    path = settings.kubeconfig or options.environ.get("KUBECONFIG") or ""
    if settings.in_cluster or (not path and _is_pod(options.environ)):
        login = _of_account(options)
    else:
        login = _of_kubeconfig(path or _home_kubeconfig(options.environ), settings, options)
    _choose_proxy(login, options.environ)
    # Retries are ours: the library's would repeat writes, and waits nobody sees.
    login.configuration.retries = False
    return login


def _is_pod(environ: Mapping[str, str]) -> bool:
    return bool(environ.get(_HOST_VARIABLE)) and not os.path.exists(_home_kubeconfig(environ))


def _home_kubeconfig(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME")
    return f"{home}/.kube/config" if home else os.path.expanduser(_DEFAULT_KUBECONFIG)


def _of_account(options: LoginOptions) -> Login:
    from kubernetes.client.configuration import Configuration
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.config.incluster_config import InClusterConfigLoader

    configuration = Configuration()
    configuration.proxy = None
    folder = options.account_folder
    try:
        load: Any = InClusterConfigLoader  # the library's types stop here
        load(
            token_filename=f"{folder}/token",
            cert_filename=f"{folder}/ca.crt",
            try_refresh_token=False,
            environ=options.environ,
        ).load_and_set(configuration)
    except (ConfigException, OSError) as exc:
        raise ConfigError(
            "can't use the pod's own service account",
            cause=shortened(str(exc)),
            hint="kubernetes.in_cluster works inside a pod only, with "
            "automountServiceAccountToken on; outside name a kubeconfig",
        ) from exc
    # It keeps the line's end of the token file.
    configuration.api_key = {k: v.strip() for k, v in configuration.api_key.items()}
    return Login(configuration, f"the token in {folder}")


def _of_kubeconfig(path: str, settings: KubernetesSettings, options: LoginOptions) -> Login:
    from kubernetes.client.configuration import Configuration
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.config.kube_config import KubeConfigLoader

    merged = _merged(path)
    try:
        choice = _Choice.of(merged, settings.context, path)
        _run_plugin(choice, options)
        configuration = Configuration()
        configuration.proxy = None
        load: Any = KubeConfigLoader  # the library's types stop here
        load(merged, active_context=choice.context).load_and_set(configuration)
    except ConfigException as exc:
        raise _broken(path, _without_values(str(exc))) from exc
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        # A value of another shape than the format says; the exception may quote it.
        raise _broken(path, "it is not shaped as a kubeconfig") from exc
    except OSError as exc:
        raise _broken(path, f"{exc.strerror or 'a login service is out of reach'}") from exc
    _check_login(choice, configuration)
    return Login(configuration, choice.who)


@dataclass(frozen=True, slots=True)
class _Choice:
    """One context of a kubeconfig. `user` and `cluster` are their sections."""

    context: str
    who: str
    user: Any = field(repr=False)
    cluster: Any = field(repr=False)
    folder: str = ""

    @classmethod
    def of(cls, merged: Any, context: str | None, path: str) -> _Choice:
        """The named context, else the current one. Raises ConfigError when it does not exist."""
        name = context or merged.value.get("current-context")
        contexts = {node.value["name"]: node.value["context"] for node in merged.value["contexts"]}
        if not name:
            raise _broken(path, "it names no current-context", _known(contexts))
        if name not in contexts:
            raise _broken(path, f"it has no context {shortened(str(name), 80)}", _known(contexts))
        users = {node.value["name"]: node for node in merged.value["users"]}
        clusters = {node.value["name"]: node for node in merged.value["clusters"]}
        user, cluster = contexts[name].get("user"), contexts[name].get("cluster")
        if cluster not in clusters:
            raise _broken(path, f"context {name} names a cluster that it does not define")
        if user and user not in users:
            raise _broken(path, f"context {name} names a user that it does not define")
        node = users.get(user)
        return cls(
            context=name,
            who=f"user {user} of {path}" if user else f"context {name} of {path}, without a user",
            user=node,
            cluster=clusters[cluster],
            folder=os.path.dirname(os.path.abspath(node.path)) if node else "",
        )

    @property
    def settings(self) -> dict[str, Any]:
        """How the user proves who they are; empty for nobody."""
        return dict(self.user.value.get("user") or {}) if self.user is not None else {}


def _merged(path: str) -> Any:
    """The kubeconfig, or several joined by colons, as the library merges them."""
    import yaml
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.config.kube_config import KubeConfigMerger

    try:
        merge: Any = KubeConfigMerger  # the library's types stop here
        merged = merge(path).config
    except yaml.YAMLError as exc:
        # Its text shows the line, which may hold a token.
        mark = getattr(exc, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise _broken(path, f"it is not YAML{where}") from None
    except ConfigException as exc:
        raise _broken(path, _without_values(str(exc))) from exc
    except OSError as exc:
        raise _broken(path, exc.strerror or type(exc).__name__) from exc
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as exc:
        raise _broken(path, "it is not shaped as a kubeconfig") from exc
    if merged is None:
        raise ConfigError(
            f"there is no kubeconfig {path}",
            cause="the file does not exist",
            hint="give --kubeconfig FILE, set kubernetes.kubeconfig or KUBECONFIG; inside a pod "
            "set kubernetes.in_cluster: true",
        )
    return merged


def _run_plugin(choice: _Choice, options: LoginOptions) -> None:
    """Put a plugin's answer in the place of the plugin, so that the library never runs it."""
    settings = choice.settings
    plugin_config = settings.get("exec")
    if not plugin_config or settings.get("token") or settings.get("tokenFile"):
        return
    plugin = CredentialPlugin.of(plugin_config, choice.cluster.value["cluster"], choice.folder)
    credential = plugin.run(
        options.environ,
        limit_seconds=options.plugin_seconds,
        is_interactive=options.is_interactive,
    )
    del settings["exec"]
    if credential.token:
        settings["token"] = credential.token
    if credential.certificate and credential.key:
        settings["client-certificate-data"] = _encoded(credential.certificate)
        settings["client-key-data"] = _encoded(credential.key)
    choice.user.value = {**choice.user.value, "user": settings}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _check_login(choice: _Choice, configuration: Any) -> None:
    """A way to log in that led to nothing would end as a call of an anonymous user."""
    tried = [way for way in _WAYS if choice.settings.get(way)]
    if tried and not configuration.api_key.get("BearerToken") and not configuration.cert_file:
        raise BackendError(
            f"can't log in to Kubernetes as {choice.who}",
            cause=f"its {tried[0]} gave neither a token nor a certificate",
            hint="log in anew; kubectl get nodes with the same kubeconfig has to work",
        )


def _choose_proxy(login: Login, environ: Mapping[str, str]) -> None:
    """The kubeconfig's own proxy wins, as with kubectl; else the environment's, if it applies."""
    configuration = login.configuration
    if configuration.proxy is None:
        target = address(str(configuration.host), setting="the server of the cluster")
        configuration.proxy = proxy_for(target, environ)
    configuration.no_proxy = None


def _known(contexts: Mapping[str, Any]) -> str:
    return f"it has: {shorten(sorted(map(str, contexts)), 8)}" if contexts else "it has none"


def _without_values(text: str) -> str:
    """The library's complaint up to where it begins to quote the file, which holds secrets."""
    brief = text.partition(" in ")[0].replace("Invalid kube-config file. ", "")
    return shortened(brief, 160)


def _broken(path: str, cause: str, hint: str | None = None) -> ConfigError:
    return ConfigError(
        f"can't use the kubeconfig {path}",
        cause=cause,
        hint=hint or "kubectl --kubeconfig FILE config view shows what it says",
    )
