"""Credential plugins of a kubeconfig (`users[].user.exec`), run with a time limit.

The official library logs the failure of a plugin and goes on without credentials, so that the
first call is answered as if to an anonymous user, and it waits for a plugin for ever. Here a
failure is an error that repeats what the plugin said.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gpuctl.clients.faults import shortened
from gpuctl.errors import BackendError

_API_GROUP = "client.authentication.k8s.io/"


class _CredentialStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _CredentialStatus | None = None


@dataclass(frozen=True, slots=True)
class Credential:
    """What a plugin handed out: a token, or a certificate and its key in PEM form."""

    token: str | None = field(repr=False)
    certificate: str | None = field(repr=False)
    key: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class CredentialPlugin:
    """The plugin that a kubeconfig names. `folder` is where its relative paths start."""

    command: str
    args: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    api_version: str
    folder: str
    may_ask: bool
    cluster: Mapping[str, Any] | None = None
    install_hint: str | None = None

    @classmethod
    def of(
        cls, config: Mapping[str, Any], cluster: Mapping[str, Any], folder: str
    ) -> CredentialPlugin:
        """From the `exec` section of a user. Raises KeyError and TypeError for a malformed one."""
        return cls(
            command=str(config["command"]),
            args=tuple(str(one) for one in config.get("args") or ()),
            env={str(one["name"]): str(one["value"]) for one in config.get("env") or ()},
            api_version=str(config["apiVersion"]),
            folder=folder,
            may_ask=config.get("interactiveMode") != "Never",
            cluster=dict(cluster) if config.get("provideClusterInfo") else None,
            install_hint=config.get("installHint") or None,
        )

    def run(
        self, environ: Mapping[str, str], *, limit_seconds: float, is_interactive: bool
    ) -> Credential:
        """Run it and take its credential. Raises BackendError naming the plugin and its stderr.

        With a person at the terminal it may talk to them: then its stderr is not captured.
        """
        asks = is_interactive and self.may_ask
        finished = self._run(environ, limit_seconds, asks=asks)
        if finished.returncode != 0:
            raise self._failed(
                f"it ended with exit code {finished.returncode}" + _said(finished.stderr)
            )
        return self._credential(finished.stdout, finished.stderr)

    def _run(
        self, environ: Mapping[str, str], limit_seconds: float, *, asks: bool
    ) -> subprocess.CompletedProcess[bytes]:
        info = {"apiVersion": self.api_version, "kind": "ExecCredential"}
        spec: dict[str, Any] = {"interactive": asks}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        env = {
            **environ,
            **self.env,
            "KUBERNETES_EXEC_INFO": json.dumps(info | {"spec": spec}),
        }
        try:
            return subprocess.run(  # noqa: S603 - the kubeconfig is the user's own
                [self.command, *self.args],
                env=env,
                cwd=self.folder or None,
                stdin=None if asks else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if asks else subprocess.PIPE,
                timeout=max(limit_seconds, 0.001),
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise self._failed(
                f"it did not finish within {limit_seconds:.3g}s" + _said(exc.stderr)
            ) from exc
        except FileNotFoundError as exc:
            raise self._failed("there is no such program", hint=self.install_hint) from exc
        except OSError as exc:
            raise self._failed(exc.strerror or type(exc).__name__) from exc

    def _credential(self, output: bytes, errors: bytes | None) -> Credential:
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError as exc:
            # The output itself is a secret, and the decoder's words may quote it.
            what = "printed nothing" if not output.strip() else "did not print an ExecCredential"
            raise self._failed(f"it {what}" + _said(errors)) from exc
        if answer.api_version != self.api_version or not answer.api_version.startswith(_API_GROUP):
            raise self._failed(
                f"it answers in version {shortened(answer.api_version, 60) or 'unknown'}, "
                f"the kubeconfig asks for {self.api_version}"
            )
        status = answer.status or _CredentialStatus()
        has_pair = status.client_certificate_data and status.client_key_data
        if not status.token and not has_pair:
            raise self._failed("its answer holds neither a token nor a certificate with its key")
        return Credential(status.token, status.client_certificate_data, status.client_key_data)

    def _failed(self, cause: str, *, hint: str | None = None) -> BackendError:
        return BackendError(
            f"can't log in to Kubernetes: the credential plugin {self.command} failed",
            cause=cause,
            hint=hint or "kubectl get nodes with the same kubeconfig shows how it fails there",
        )


def _said(errors: bytes | None) -> str:
    text = shortened((errors or b"").decode(errors="replace"))
    return f": {text}" if text else ""
