"""A pod's manifest as what it needs: `gpuctl score --pod FILE.yaml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from gpuctl.errors import UsageError
from gpuctl.model.score import Request

GPU = "nvidia.com/gpu"
SHARED_GPU = "nvidia.com/gpu.shared"
MIG_PREFIX = "nvidia.com/mig-"
PRODUCT_LABEL = "nvidia.com/gpu.product"

_MOST_BYTES = 4 << 20
_HINT = f"name a manifest whose containers have a limit such as {GPU}: 1"


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """What a pod asks for, and its labels, by which it may be classed."""

    name: str
    request: Request
    labels: Mapping[str, str]


def load_pod(file: str, stdin: TextIO | None) -> PodNeeds:
    """The first pod of a YAML or JSON file that asks for GPUs; `-` is stdin.

    Pods of a Deployment, StatefulSet, Job, CronJob and the like count as well, and items of a List.
    Raises UsageError for a file that can't be read, is no YAML or asks for no GPU.
    """
    import yaml

    try:
        documents = list(yaml.safe_load_all(_read(file, stdin)))
    except yaml.YAMLError as exc:
        raise UsageError(f"--pod: {file} is not YAML", cause=_problem(exc), hint=_HINT) from exc
    pods = [pod for document in documents for pod in _pods(document)]
    if not pods:
        raise UsageError(f"--pod: there is no pod in {file}", hint=_HINT)
    for metadata, spec in pods:
        if _resources(spec):
            return _needs(metadata, spec)
    raise UsageError(f"--pod: no pod in {file} asks for a GPU of NVIDIA's", hint=_HINT)


def _read(file: str, stdin: TextIO | None) -> str:
    if file == "-":
        if stdin is None:
            raise UsageError("--pod - needs something on stdin", cause="stdin is closed")
        return stdin.read()
    try:
        data = Path(file).read_bytes()
        if len(data) > _MOST_BYTES:
            raise UsageError(f"--pod: {file} is larger than {_MOST_BYTES >> 20} MiB")
        return data.decode()
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise UsageError(f"--pod: can't read {file}", cause=reason) from exc


def _problem(exc: Exception) -> str:
    mark = getattr(exc, "problem_mark", None)
    what = getattr(exc, "problem", None) or str(exc)
    return what if mark is None else f"line {mark.line + 1}: {what}"


_Pod = tuple[Mapping[str, Any], Mapping[str, Any]]


def _pods(document: Any) -> Iterator[_Pod]:
    """Metadata and spec of each pod that a document describes, templates unwrapped."""
    if not isinstance(document, Mapping):
        return
    if isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _pods(item)
        return
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        return
    if isinstance(spec.get("containers"), list):
        yield _mapping(document.get("metadata")), spec
    for key in ("template", "jobTemplate"):
        yield from _pods(spec.get(key))


def _needs(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> PodNeeds:
    amounts = _resources(spec)
    if len(amounts) > 1:
        raise UsageError(
            "--pod: the pod asks for several kinds of GPU at once",
            cause=", ".join(f"{name}: {count}" for name, count in sorted(amounts.items())),
            hint="score them one by one with --gpus or --mig",
        )
    ((resource, count),) = amounts.items()
    selector = _mapping(spec.get("nodeSelector"))
    product = selector.get(PRODUCT_LABEL)
    request = Request(
        gpus=count,
        mig_profile=_profile(resource),
        gpu_model=_model_glob(product) if isinstance(product, str) else None,
        shared=resource == SHARED_GPU,
        unchecked=tuple(_unchecked(spec, selector)),
    )
    labels = {str(key): str(value) for key, value in _mapping(metadata.get("labels")).items()}
    return PodNeeds(str(metadata.get("name") or "pod"), request, labels)


def _resources(spec: Mapping[str, Any]) -> dict[str, int]:
    """GPU resources of the whole pod as the scheduler counts them.

    The sum over containers, or what a single init container asks for where that is more; init
    containers that keep running (restartPolicy Always) belong to the sum.
    """
    inits = _containers(spec, "initContainers")
    running = [one for one in inits if one.get("restartPolicy") == "Always"]
    total: dict[str, int] = {}
    for container in (*_containers(spec, "containers"), *running):
        for name, count in _gpu_amounts(container):
            total[name] = total.get(name, 0) + count
    for container in inits:
        for name, count in _gpu_amounts(container):
            total[name] = max(total.get(name, 0), count)
    return total


def _containers(spec: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    found = spec.get(key)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _gpu_amounts(container: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    resources = _mapping(container.get("resources"))
    # For extended resources a limit alone sets the request, and the two must be equal.
    amounts = {**_mapping(resources.get("requests")), **_mapping(resources.get("limits"))}
    for name, amount in amounts.items():
        if name in (GPU, SHARED_GPU) or str(name).startswith(MIG_PREFIX):
            count = _whole(name, amount)
            if count:
                yield str(name), count


def _whole(name: str, amount: object) -> int:
    text = str(amount)
    if text.isascii() and text.isdigit():
        return int(text)
    raise UsageError(
        f"--pod: {name}: {text} is not a whole number", cause="Kubernetes would refuse the pod"
    )


def _profile(resource: str) -> str | None:
    """`1g.10gb+me` of `nvidia.com/mig-1g.10gb.me`: resource names can't hold a plus."""
    if not resource.startswith(MIG_PREFIX):
        return None
    size, memory, *attributes = resource.removeprefix(MIG_PREFIX).split(".")
    return "+".join([f"{size}.{memory}", *attributes])


def _model_glob(product: str) -> str:
    """The label has dashes where the model's name has blanks, and may say how a card is cut up."""
    base = product.removesuffix("-SHARED").partition("-MIG-")[0]
    return base.replace("-", "?")


def _unchecked(spec: Mapping[str, Any], selector: Mapping[str, Any]) -> Iterator[str]:
    for key, value in sorted(selector.items()):
        if key != PRODUCT_LABEL:
            yield f"nodeSelector {key}={value}"
    if spec.get("tolerations"):
        yield "taints and tolerations"
    affinity = _mapping(spec.get("affinity"))
    yield from (
        key for key in ("nodeAffinity", "podAffinity", "podAntiAffinity") if key in affinity
    )
    yield from (
        key for key in ("topologySpreadConstraints", "resourceClaims", "nodeName") if spec.get(key)
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
