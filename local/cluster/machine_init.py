"""Process 1 of a machine: makes the machine's namespaces, then starts its services and keeps them running.

Run as a script of its own (`python -I -S machine_init.py FOLDER`), by the standard library alone, since it stays for as
long as the machine lives. It reads two files in FOLDER:

    machine.json    what the machine is: its cgroups, mounts, kernel settings; read once
    services.json   what runs in it; read again at each SIGHUP, after which only what differs is started or ended

and writes `pid` (host's process id, start time and boot, by which nobody takes another process for it), `status.json` and
`log/`. The script returns when the machine is ready for its services, or says why it isn't and ends with 1.
"""

import contextlib
import ctypes
import errno
import json
import os
import signal
import socket
import stat
import sys
import time
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000,
    0x04000000,
    0x08000000,
    0x20000000,
    0x40000000,
)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_SLAVE, MS_SHARED = (
    1,
    2,
    4,
    8,
    32,
    4096,
    8192,
    16384,
    1 << 19,
    1 << 20,
)
HANDLED = (signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM)
FIRST_BACKOFF_S, LONGEST_BACKOFF_S, STEADY_AFTER_S = 0.2, 10.0, 30.0
LOG_LIMIT_BYTES, LOG_KEPT_BYTES, LOG_CHECK_S = 8 << 20, 1 << 20, 15.0

libc = ctypes.CDLL(None, use_errno=True)


def fail(what):
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind=None, flags=0, data=None):
    arguments = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    if libc.mount(arguments[0], arguments[1], arguments[2], ctypes.c_ulong(flags), arguments[3]):
        fail(f"mount {source or kind} on {target}")


def bind(source, target, flags=0):
    mount(source, target, flags=MS_BIND | flags)


# ---- the namespaces, seen from outside


def main():
    folder = Path(sys.argv[1]).resolve()
    machine = json.loads((folder / "machine.json").read_text())
    for procs in machine["cgroup_procs"]:
        Path(procs).write_text("0")
    os.setsid()
    if libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET):
        fail("unshare")
    told_r, told_w = os.pipe()  # the child says how it went
    go_r, go_w = os.pipe()  # the parent has written down whom to end; without it the child ends by itself
    child = os.fork()
    if child == 0:
        os.close(told_r)
        os.close(go_w)
        be_process_one(folder, machine, go_r, told_w)
    os.close(told_w)
    os.close(go_r)
    write(folder / "pid", json.dumps({"pid": child, "started": started(child), "boot": boot_id()}))
    os.write(go_w, b"!")
    with os.fdopen(told_r, "rb") as told:
        said = told.read()
    if said != b"ready":
        sys.stderr.write(said.decode(errors="replace") or "process 1 of the machine ended at once\n")
        sys.exit(1)


def started(pid):
    """When a process began, in clock ticks after boot: with its id, this names one process for ever."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[19])


def boot_id():
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def write(path, text):
    """Whole or not at all, whenever we are killed."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


# ---- the machine, seen from inside


def be_process_one(folder, machine, go_r, told_w):
    try:
        if os.read(go_r, 1) != b"!":
            os._exit(1)
        log = os.open(folder / "log" / "machine.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        null = os.open("/dev/null", os.O_RDONLY)
        for number in HANDLED:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        furnish(machine)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        supervisor = Supervisor(folder)
        os.write(told_w, b"ready")
        os.close(told_w)
    except BaseException as error:  # noqa: BLE001  # whatever it is, the one who waits must hear it
        os.write(told_w, f"{machine['hostname']}: {error}\n".encode())
        os._exit(1)
    try:
        supervisor.run()
    except BaseException as error:  # noqa: BLE001  # the log is the only place left
        print(f"process 1 ends: {error!r}", flush=True)
    os._exit(0)


def furnish(machine):
    """Mounts, kernel settings and names. Nothing of it is seen outside of the machine's namespaces."""
    kept = [(path, os.open(path, os.O_PATH | os.O_DIRECTORY)) for path in machine["keep"]]
    # Mounts of the host still arrive (and, as important, go away again); none of ours leaves.
    mount(None, "/", flags=MS_REC | MS_SLAVE)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    own_sysfs()
    for target, source in machine["covers"].items():
        os.makedirs(source, exist_ok=True)
        bind(source, target)
    for path, handle in kept:
        keep(path, handle)
    for path in machine["folders"]:
        os.makedirs(path, exist_ok=True)
    for target, source in machine["read_only"].items():
        os.makedirs(target, exist_ok=True)
        bind(source, target)
        mount(None, target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)
    seem(machine["seeming"])
    for path, value in machine["sysctls"].items():
        with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6, say
            Path(path).write_text(value)
    mount(None, "/", flags=MS_REC | MS_SHARED)  # so that a container may ask for mounts that come later
    socket.sethostname(machine["hostname"])
    os.chdir("/")


def own_sysfs():
    """A sysfs shows the network devices of the namespace that mounted it; the host's control groups go back in."""
    os.makedirs("/run/.cgroup", exist_ok=True)
    bind("/sys/fs/cgroup", "/run/.cgroup", MS_REC)
    mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("/run/.cgroup", "/sys/fs/cgroup", flags=MS_MOVE)


def keep(path, handle):
    """Bring a folder back to its place where one of our mounts has hidden it."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(os.stat(path), os.fstat(handle)):
            return
    os.makedirs(path, exist_ok=True)
    bind(f"/proc/self/fd/{handle}", path)


def seem(values):
    """Let kernel settings that the kubelet insists on seem to be set. They are the whole host's, and stay as they are."""
    os.makedirs("/run/.seeming", exist_ok=True)
    for number, (path, value) in enumerate(values.items()):
        if os.path.exists(path):
            stand_in = f"/run/.seeming/{number}"
            Path(stand_in).write_text(f"{value}\n")
            bind(stand_in, path)


# ---- the services


class Service:
    """One program that is to run, and the process that it is now."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.pid = None
        self.since = 0.0
        self.restarts = 0
        self.last_exit = None
        self.backoff_s = FIRST_BACKOFF_S
        self.not_before = 0.0
        self.kill_at = None

    def ended(self, code, now):
        if now - self.since > STEADY_AFTER_S:
            self.backoff_s = FIRST_BACKOFF_S
        self.pid, self.kill_at, self.last_exit = None, None, code
        self.restarts += 1
        self.not_before = now + self.backoff_s
        self.backoff_s = min(self.backoff_s * 2, LONGEST_BACKOFF_S)

    def stop(self, now):
        if self.pid is not None and self.kill_at is None:
            self.kill_at = now + self.wanted["stop_timeout_s"]
            os.kill(self.pid, signal.SIGTERM)


class Supervisor:
    """Starts each service when what it needs is there, again when it ends, and bounds the logs."""

    def __init__(self, folder):
        self.folder = folder
        self.services = {}
        self.leaving = {}
        self.stopping = False
        self.logs_checked = 0.0
        self.load()

    def load(self):
        wanted = {entry["name"]: entry for entry in json.loads((self.folder / "services.json").read_text())}
        now = time.monotonic()
        for name, service in list(self.services.items()):
            if wanted.get(name) != service.wanted:
                service.stop(now)
                if service.pid is not None:
                    self.leaving[service.pid] = service
                del self.services[name]
        for name, entry in wanted.items():
            self.services.setdefault(name, Service(entry))
        self.tell()

    def run(self):
        while True:
            self.turn()
            if self.stopping and not self.leaving and all(s.pid is None for s in self.services.values()):
                return
            self.hear(self.pause())

    def pause(self):
        """Seconds until something is to be done without being asked."""
        now = time.monotonic()
        waiting = [s for s in self.services.values() if s.pid is None and not self.stopping]
        if self.leaving or self.stopping or any(now - s.since < STEADY_AFTER_S or not s.since for s in waiting):
            return 0.05
        return 0.5 if waiting else LOG_CHECK_S

    def hear(self, timeout_s):
        heard = signal.sigtimedwait(HANDLED, timeout_s)
        if heard is None:
            return
        if heard.si_signo == signal.SIGHUP:
            self.load()
        elif heard.si_signo == signal.SIGTERM:
            self.stopping = True
            now = time.monotonic()
            for service in self.services.values():
                service.stop(now)

    def turn(self):
        now = time.monotonic()
        self.reap(now)
        for service in self.leaving.values():
            if service.kill_at is not None and now > service.kill_at:
                os.kill(service.pid, signal.SIGKILL)
        leaving = {service.wanted["name"] for service in self.leaving.values()}
        for name, service in self.services.items():
            if self.stopping:
                if service.kill_at is not None and now > service.kill_at:
                    os.kill(service.pid, signal.SIGKILL)
            elif service.pid is None and name not in leaving and now >= service.not_before:
                if all(there(need) for need in service.wanted["needs"]):
                    self.start(service, now)
        if now - self.logs_checked > LOG_CHECK_S:
            self.logs_checked = now
            self.bound_logs()

    def reap(self, now):
        """Our own services, and whatever processes were left to us because their parents ended."""
        changed = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if pid == 0:
                break
            if self.leaving.pop(pid, None):
                changed = True
            for service in self.services.values():
                if service.pid == pid:
                    service.ended(os.waitstatus_to_exitcode(status), now)
                    print(f"{service.wanted['name']} ended with {service.last_exit}", flush=True)
                    changed = True
        if changed:
            self.tell()

    def start(self, service, now):
        wanted = service.wanted
        log = str(self.folder / "log" / f"{wanted['name']}.log")
        actions = [
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        service.since = now
        try:
            service.pid = os.posix_spawn(
                wanted["argv"][0],
                wanted["argv"],
                wanted["environment"],
                file_actions=actions,
                setsid=True,
                setsigmask=[],
                setsigdef=HANDLED,
            )
        except OSError as error:
            print(f"{wanted['name']} can't be started: {error}", flush=True)
            service.ended(error.errno or errno.EIO, now)
        self.tell()

    def tell(self):
        def state(service):
            return {"pid": service.pid, "restarts": service.restarts, "last_exit": service.last_exit}

        services = {name: state(service) for name, service in self.services.items()}
        leaving = [service.wanted["name"] for service in self.leaving.values()]
        write(self.folder / "status.json", json.dumps({"services": services, "leaving": leaving}))

    def bound_logs(self):
        """The end of a log that grew too long goes to *.old; the file itself is emptied, since its writer has it open."""
        for log in (self.folder / "log").glob("*.log"):
            if log.stat().st_size > LOG_LIMIT_BYTES:
                with log.open("r+b") as file:
                    file.seek(-LOG_KEPT_BYTES, os.SEEK_END)
                    log.with_suffix(".old").write_bytes(file.read())
                    file.truncate(0)


def there(need):
    """Whether something that a service waits for is there: `unix:PATH`, a socket that listens, or `tcp:HOST:PORT`."""
    kind, _, where = need.partition(":")
    try:
        if kind == "unix":
            if not stat.S_ISSOCK(os.stat(where).st_mode):
                return False
            with socket.socket(socket.AF_UNIX) as unix:
                unix.settimeout(0.2)
                unix.connect(where)
        else:
            host, _, port = where.rpartition(":")
            with socket.create_connection((host, int(port)), 0.2):
                pass
    except OSError:
        return False
    return True


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)
