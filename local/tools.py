"""The programs that the local platform runs: found on PATH in the right version, or built into the cache."""

import os
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from .cache import key_of, make_once
from .paths import bin_dir
from .progress import Progress
from .toolchain import ambient, build, golang, plugin, recipes
from .toolchain.recipes import Recipe

_BUILDS_AT_ONCE = 2  # A download or a link of one leaves a core to the compiler of the other.


@dataclass(frozen=True)
class Tools:
    """Where each program is. All paths are absolute."""

    bin: Path
    """The one folder to put at the front of PATH: all that was built. `pulumi` finds its language host there."""
    pulumi: Path
    provider: Path
    """Pulumi's provider for Kubernetes; see toolchain.plugin.provide."""
    kubectl: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubelet: Path
    kube_proxy: Path
    etcd: Path
    coredns: Path
    kube_router: Path


def ensure(progress: Progress) -> Tools:
    """Find or build every program. Idempotent; milliseconds when all is there, at most 25 minutes from nothing.

    Raises LocalError, which names the log, where a build fails.
    """
    found = _found()
    needed = _needed(found)
    _build([recipe for recipe in needed if not build.entry_of(recipe).exists()], progress)
    folder = _assemble(needed)
    # What was found on PATH goes before what a build brings along: kubectl is a part of the Kubernetes build.
    programs = {program: folder / program for recipe in needed for program in recipe.programs} | found
    if recipes.PROVIDER in needed:
        programs[recipes.PROVIDER.name] = build.entry_of(recipes.PROVIDER) / recipes.PROVIDER.name
    return Tools(
        bin=folder,
        pulumi=programs["pulumi"],
        provider=programs[recipes.PROVIDER.name],
        kubectl=programs["kubectl"],
        kube_apiserver=programs["kube-apiserver"],
        kube_controller_manager=programs["kube-controller-manager"],
        kube_scheduler=programs["kube-scheduler"],
        kubelet=programs["kubelet"],
        kube_proxy=programs["kube-proxy"],
        etcd=programs["etcd"],
        coredns=programs["coredns"],
        kube_router=programs["kube-router"],
    )


def _found() -> dict[str, Path]:
    """The programs that this machine has on PATH in a version that will do, by name."""
    found: dict[str, Path] = {}
    singles = (ambient.PULUMI, ambient.ETCD, ambient.COREDNS, ambient.KUBE_ROUTER)
    for wanted in singles:
        if path := ambient.find(wanted):
            found[wanted.program] = path
    if servers := ambient.find_all(ambient.KUBERNETES):  # All of one version, or none.
        found |= servers
    if path := ambient.find(ambient.KUBECTL):
        found[ambient.KUBECTL.program] = path
    if path := plugin.installed():
        found[recipes.PROVIDER.name] = path
    if path := _language_host(found.get("pulumi")):
        found[ambient.LANGUAGE_HOST] = path
    return found


def _language_host(pulumi: Path | None) -> Path | None:
    """The official language host: on PATH, or where the official distribution has it, beside `pulumi`."""
    beside = pulumi.resolve().parent / ambient.LANGUAGE_HOST if pulumi else None
    return ambient.program_on_path(ambient.LANGUAGE_HOST) or (beside if beside and beside.exists() else None)


def _needed(found: dict[str, Path]) -> list[Recipe]:
    """What has to be built, the longest build first."""
    needed = [recipe for recipe in recipes.TOOLS_TO_RUN if not _provided(recipe, found)]
    return sorted(needed, key=lambda recipe: -recipe.cost_s)


def _provided(recipe: Recipe, found: dict[str, Path]) -> bool:
    programs = recipe.links or (recipe.name,)
    return all(program in found for program in programs)


def _build(missing: list[Recipe], progress: Progress) -> None:
    if not missing:
        return
    go = golang.find(progress)
    total_s = sum(recipe.cost_s for recipe in missing)
    names = ", ".join(recipe.name for recipe in missing)
    progress.say(f"Building {names} with {go.version}; from nothing that takes about {total_s // 60 + 1} minutes")
    executor = ThreadPoolExecutor(max_workers=_BUILDS_AT_ONCE)
    try:
        builds = [
            executor.submit(build.ensure, recipe, go, progress, label=f"[{n}/{len(missing)}] Building {recipe.name}")
            for n, recipe in enumerate(missing, start=1)
        ]
        done, _ = wait(builds, return_when=FIRST_EXCEPTION)
        for result in done:
            result.result()
    finally:
        executor.shutdown(cancel_futures=True)


def _assemble(needed: list[Recipe]) -> Path:
    """One folder with hard links to all that was built: a program finds what belongs to it in its own folder."""
    entries = {recipe: build.entry_of(recipe) for recipe in needed if recipe is not recipes.PROVIDER}
    folder = bin_dir(key_of(sorted(entry.name.encode() for entry in entries.values())))

    def make(workplace: Path) -> None:
        made = workplace / folder.name
        made.mkdir()
        for recipe, entry in entries.items():
            for program in recipe.programs:
                os.link(entry / program, made / program)

    make_once(folder, make)
    return folder
