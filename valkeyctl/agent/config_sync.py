"""Keeps the own server's settings, passwords and certificates as declared while it runs.

What is declared comes from the API server, within a second or so (a mount would be a minute late). The running server
is told first; only what it has accepted is written for its next start, so that server and file never disagree, and a
value that it refuses is reported and in effect nowhere (report B5).
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from valkeyctl.agent import render
from valkeyctl.agent.certificates import Certificates
from valkeyctl.agent.kept import DEFAULTS, LIVE, Kept, Passwords
from valkeyctl.agent.resp import ErrorReply, Link, Nonsense, connected
from valkeyctl.agent.rotation import Pace, Rotation
from valkeyctl.agent.runtime import Runtime
from valkeyctl.agent.settings_live import Refused, Wanted, found_in, read_directives, tell, wanted
from valkeyctl.dataplane.model import Member
from valkeyctl.dataplane.settings import differing
from valkeyctl.kube.access import Api, connect, path_of
from valkeyctl.kube.errors import KubeError
from valkeyctl.kube.events import WARNING, record
from valkeyctl.kube.labels import REFUSED_REASON, config_name
from valkeyctl.kube.watch import Follow

PART = "config"
STEP_S = 0.5
"""Between two steps of a change that is under way."""
CHECK_S = 5.0
"""Between two looks at whether the server still has what it was told, and at the certificates on disk."""
AGAIN_S = 60.0
"""How long until what the server refused is tried again: whether it fits may depend on what else has changed."""
ANSWER_S = 2.0
CONNECT_AGAIN_S = 30.0
NO_HURRY = Pace()
CONFIRM_S = 1.0


class ConfigSync:
    """The part of the agent that applies changes. `run` is its thread; two more wait for the API server."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        api: Callable[[], Api] = lambda: connect(None, None),
        variables: Mapping[str, str] = os.environ,
        pace: Pace = NO_HURRY,
        check_s: float = CHECK_S,
    ) -> None:
        self._runtime, self._connecting, self._pace, self._check_s = runtime, api, pace, check_s
        self._api: Api | None = None
        self._environment = runtime.environment
        self._secret = variables.get("PASSWORD_SECRET", "")
        self._key = variables.get("PASSWORD_KEY", "password")
        limit = variables.get("SERVER_MEMORY_LIMIT", "")
        self._memory_limit = int(limit) if limit.isdigit() else None
        self._kept = Kept(self._environment.run)
        self._news = threading.Event()
        self._declared: dict[str, str] | None = None  # the data of the ConfigMap
        self._password: bytes | None = None
        self._rotation: Rotation | None = None
        self._confirmed: tuple[bytes, set[tuple[Member, str]]] = (b"", set())
        self._certificates = Certificates()
        self._tried: dict[str, str] | None = None
        self._tried_at = self._checked_at = float("-inf")
        self._drifted = False
        self._told: dict[str, str] = {}

    def run(self) -> None:
        """Apply what changes until the agent ends."""
        follows: list[Follow] = []
        connect_at = float("-inf")
        try:
            while not self._runtime.stopping.is_set():
                self._runtime.beat(PART)
                if not follows and time.monotonic() >= connect_at:
                    connect_at = time.monotonic() + CONNECT_AGAIN_S
                    follows = self._connect()
                if self._runtime.server.state.serving:
                    self._step()
                self._news.wait(STEP_S)
                self._news.clear()
        finally:
            for follow in follows:
                follow.stop()

    def _connect(self) -> list[Follow]:
        """The declared objects are followed from now on; none without an account, and the rest goes on."""
        try:
            self._api = self._connecting()
        except KubeError as error:
            self._say("api", f"changes can't be followed: {error}", bad=True)
            return []
        return self._follow(self._api)

    # --- what is declared --------------------------------------------------------------------------------------------

    def _follow(self, api: Api) -> list[Follow]:
        namespace, instance = self._environment.namespace, self._environment.instance
        objects: list[tuple[str, str, Callable[[dict[str, Any] | None], None]]] = [
            ("configmaps", config_name(instance), self._see_config)
        ]
        if self._secret:
            objects.append(("secrets", self._secret, self._see_secret))
        follows: list[Follow] = []
        for plural, name, seen in objects:
            follow = Follow(
                api,
                path_of("v1", plural, namespace),
                name,
                seen=seen,
                failed=lambda error, name=name: self._say(name, f"{name} can't be followed: {error}", bad=True),
                well=lambda name=name: self._say(name, f"{name} is followed again"),
            )
            threading.Thread(target=follow.run, name=f"follow {name}", daemon=True).start()
            follows.append(follow)
        return follows

    def _see_config(self, found: dict[str, Any] | None) -> None:
        data: dict[str, str] = (found or {}).get("data") or {}
        if LIVE in data:  # a ConfigMap that was deleted or emptied declares nothing
            self._declared = data
            self._news.set()

    def _see_secret(self, found: dict[str, Any] | None) -> None:
        text = ((found or {}).get("data") or {}).get(self._key) or ""
        try:
            password = base64.b64decode(text, validate=True)
        except binascii.Error:
            password = b""
        if password:
            self._password = password
            self._news.set()
        else:
            self._say("password", f"the Secret {self._secret} has no {self._key}; the password stays", bad=True)

    # --- one step ----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        now = time.monotonic()
        checks = now - self._checked_at >= self._check_s
        try:
            self._passwords()
            news = self._declared is not None and self._declared != self._tried
            again = self._declared == self._tried and bool(self._told.get(LIVE)) and now - self._tried_at >= AGAIN_S
            if news or again or checks:
                with self._link() as link:
                    if news or again:
                        self._tried_at = now
                        self._settings(link)
                    elif checks:
                        self._drift(link)
                    if checks:
                        self._checked_at = now
                        self._look_at_certificates(link)
        except (OSError, Nonsense) as error:
            # The server ended, or is busy: the watch tells more, and the next step tries again.
            self._say("server", f"the server could not be asked: {error}", bad=True)
        except render.NotRendered as error:
            # The server has it, its file not yet: the next step finds nothing to tell, and writes again.
            self._say("file", f"the server's file could not be written: {error}", bad=True)
        else:
            self._told.pop("server", None)

    def _link(self) -> Link:
        where = (self._environment.address, self._environment.client_port)
        return connected(*where, self._kept.passwords.accepted, ANSWER_S)

    def _settings(self, link: Link) -> None:
        """What the ConfigMap declares, all of it or nothing."""
        declared = self._declared or {}
        what = wanted(
            declared[LIVE], self._kept.live, _defaults(declared.get(DEFAULTS, "")), memory_limit=self._memory_limit
        )
        try:
            changed = tell(link, what.settings)
        except Refused as error:
            self._tried = declared
            self._report(LIVE, f"{self._environment.member}: the server refuses the declared settings: {error}")
            return
        self._kept.write_live(what.text)
        render.write(self._environment)
        self._tried = declared
        self._told.pop(LIVE, None)
        if changed:
            self._runtime.log.info(PART, "applied: " + ", ".join(f"{n} {v!r}" for n, v in changed.items()))
        else:
            self._say("at first", "the server has the declared settings")
        self._say_postponed(what)

    def _say_postponed(self, what: Wanted) -> None:
        for name, why in what.postponed.items():
            self._say(name, f"{name}: {why}", bad=True)
        if what.forgotten:
            names = ", ".join(what.forgotten)
            self._say("default", f"{names}: the default of this version isn't known; it holds from the next start on")

    def _drift(self, link: Link) -> None:
        """Sets back what somebody changed by hand; seen twice, since a change may be meant for a moment only."""
        kept = read_directives(self._kept.live)
        try:
            if self._drifted:
                changed = tell(link, kept)
                self._drifted = False
                if changed:
                    names = ", ".join(f"{name} {value!r}" for name, value in changed.items())
                    self._runtime.log.warning(PART, f"set back what was changed by hand: {names}")
            else:
                self._drifted = bool(differing(kept, found_in(link, kept)))
        except Refused as error:
            self._drifted = False
            self._say("drift", f"the server refuses what it had: {error}", bad=True)

    def _look_at_certificates(self, link: Link) -> None:
        try:
            if self._certificates.look(link):
                self._told.pop("certificates", None)
                self._runtime.log.info(PART, "loaded certificates that have changed")
        except Refused as error:
            text = f"{self._environment.member}: the server refuses changed certificates: {error}"
            self._report("certificates", text)

    # --- passwords ---------------------------------------------------------------------------------------------------

    def _passwords(self) -> None:
        if self._rotation is None:
            self._rotation = Rotation(
                self._kept.passwords,
                tell=self._tell_passwords,
                missing=self._missing,
                note=lambda line: self._runtime.log.info(PART, line),
                pace=self._pace,
            )
        if self._password is not None:
            self._rotation.change(self._password)
        self._rotation.go_on()

    def _tell_passwords(self, passwords: Passwords) -> bool:
        """Files first, since the server reads its users from one; taken back where it doesn't take them."""
        before = self._kept.passwords
        with self._link() as link:
            self._write_passwords(passwords)
            replies = link.ask(("ACL", "LOAD"), ("CONFIG", "SET", "primaryauth", passwords.primary))
            refused = next((reply for reply in replies if isinstance(reply, ErrorReply)), None)
            if refused is None:
                try:
                    connected(
                        self._environment.address, self._environment.client_port, (passwords.current,), ANSWER_S
                    ).close()
                except PermissionError as error:
                    refused = ErrorReply(str(error))
            if refused is None:
                return True
            self._write_passwords(before)
            link.ask(("ACL", "LOAD"), ("CONFIG", "SET", "primaryauth", before.primary))
        self._say("password", f"the server refuses the changed password: {refused.text}", bad=True)
        return False

    def _write_passwords(self, passwords: Passwords) -> None:
        self._kept.write_passwords(passwords)
        render.write(self._environment)

    def _missing(self, password: bytes) -> Collection[str]:
        """The members that don't take it. One that did, at the address that it has, is not asked again."""
        if self._confirmed[0] != password:
            self._confirmed = (password, set())
        confirmed = self._confirmed[1]
        known = self._runtime.peers.addresses()
        addresses = {member: where for member, where in known.items() if (member, where) not in confirmed}

        def takes(address: str) -> bool:
            try:
                connected(address, self._environment.client_port, (password,), CONFIRM_S).close()
            except (OSError, Nonsense):
                return False
            return True

        if not addresses:
            return ()
        with ThreadPoolExecutor(max_workers=8) as pool:
            taken = list(pool.map(takes, addresses.values()))
        confirmed.update(pair for pair, yes in zip(addresses.items(), taken, strict=True) if yes)
        return [str(member) for member, yes in zip(addresses, taken, strict=True) if not yes]

    # --- what is told ------------------------------------------------------------------------------------------------

    def _say(self, about: str, line: str, *, bad: bool = False) -> None:
        """One line in the log, unless it is what was last said of this."""
        if self._told.get(about) != line:
            self._told[about] = line
            (self._runtime.log.warning if bad else self._runtime.log.info)(PART, line)

    def _report(self, about: str, line: str) -> None:
        """Also as an Event of the Pod, where `up` finds it. Values may stand in it: no setting here is secret."""
        if self._told.get(about) == line:
            return
        self._say(about, line, bad=True)
        api = self._api
        if api is None:
            return
        path = path_of("v1", "pods", self._environment.namespace, self._environment.pod)
        try:
            pod = {"apiVersion": "v1", "kind": "Pod", **api.get(path)}
            record(api, pod, kind=WARNING, reason=REFUSED_REASON, message=line, create_only=True)
        except KubeError as error:
            self._say("event", f"the event could not be written: {error}", bad=True)


def _defaults(text: str) -> dict[str, str]:
    try:
        return {str(name): str(value) for name, value in dict(json.loads(text)).items()}
    except ValueError:
        return {}
