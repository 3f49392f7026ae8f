"""The steps of a changed password, with a clock of the test's own."""

from __future__ import annotations

from dataclasses import dataclass, field

from valkeyctl.agent.acl import users_file
from valkeyctl.agent.kept import Passwords
from valkeyctl.agent.rotation import Pace, Rotation

OLD, NEW, NEWER = b"old", b"new", b"newer"


@dataclass
class Scene:
    """One member, the others that don't take the new password yet, and what was told."""

    kept: Passwords = field(default_factory=lambda: Passwords(OLD, primary=OLD))
    lacking: list[str] = field(default_factory=lambda: ["s0-1"])
    refuses: bool = False
    at: float = 1000.0
    told: list[Passwords] = field(default_factory=list[Passwords])
    notes: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.rotation = Rotation(
            self.kept,
            tell=self._tell,
            missing=lambda _password: list(self.lacking),
            note=self.notes.append,
            pace=Pace(old_s=120, move_s=30, give_up_s=600),
            now=lambda: self.at,
        )

    def _tell(self, passwords: Passwords) -> bool:
        if not self.refuses:
            self.told.append(passwords)
        return not self.refuses

    def after(self, seconds: float) -> Passwords:
        """What the server was last told, so much later."""
        for _ in range(int(seconds * 2)):
            self.at += 0.5
            self.rotation.go_on()
        return self.rotation.kept


def test_the_same_password_is_no_change() -> None:
    scene = Scene()
    scene.rotation.change(OLD)
    assert (scene.rotation.open, scene.after(1000), scene.told) == (False, scene.kept, [])


def test_both_are_taken_at_once_and_the_old_one_is_still_shown_to_others() -> None:
    scene = Scene()
    scene.rotation.change(NEW)
    assert scene.told == [Passwords(NEW, (OLD,), OLD)]


def test_the_new_one_is_shown_to_others_when_all_take_it_and_the_old_one_goes_later() -> None:
    scene = Scene()
    scene.rotation.change(NEW)
    assert scene.after(10).primary == OLD
    scene.lacking.clear()
    assert scene.after(2) == Passwords(NEW, (OLD,), NEW)
    assert scene.after(115) == Passwords(NEW, (OLD,), NEW)
    assert scene.after(5) == Passwords(NEW, (), NEW)
    assert not scene.rotation.open
    assert not any("never seen" in note for note in scene.notes)


def test_a_member_that_is_never_heard_of_holds_up_nothing_for_ever_and_is_named() -> None:
    scene = Scene()
    scene.rotation.change(NEW)
    assert scene.after(29).primary == OLD
    assert scene.after(2).primary == NEW
    assert scene.after(560).former == (OLD,)
    assert scene.after(10).former == ()
    assert "s0-1" in scene.notes[-1]


def test_a_second_change_on_the_way_keeps_all_that_may_be_in_use() -> None:
    scene = Scene(lacking=[])
    scene.rotation.change(NEW)
    scene.after(5)
    scene.rotation.change(NEWER)
    assert scene.rotation.kept == Passwords(NEWER, (NEW, OLD), NEW)
    assert scene.after(125) == Passwords(NEWER, (), NEWER)


def test_a_change_that_is_taken_back_makes_the_old_one_the_new_one() -> None:
    scene = Scene(lacking=[])
    scene.rotation.change(NEW)
    scene.rotation.change(OLD)
    assert scene.rotation.kept == Passwords(OLD, (NEW,), OLD)
    assert scene.after(125) == Passwords(OLD, (), OLD)


def test_a_server_that_refuses_is_told_again_at_the_next_word_of_the_secret() -> None:
    scene = Scene(refuses=True)
    scene.rotation.change(NEW)
    assert scene.rotation.kept == scene.kept
    scene.refuses = False
    scene.rotation.change(NEW)
    assert scene.rotation.kept.current == NEW


def test_another_agent_process_goes_on_with_what_is_open() -> None:
    scene = Scene(kept=Passwords(NEW, (OLD,), OLD), lacking=[])
    scene.rotation.change(NEW)
    assert scene.told == []
    assert scene.after(125) == Passwords(NEW, (), NEW)


def test_the_file_of_users_has_a_hash_of_each_accepted_password_and_no_password() -> None:
    text = users_file(Passwords(NEW, (OLD, NEW), OLD))
    assert text.startswith("user default on ")
    assert text.count("#") == 2
    assert text.count("\n") == 1
    assert "new" not in text
    assert "old" not in text
    assert "nopass" not in text


def test_passwords_are_never_shown() -> None:
    assert "very" not in repr(Passwords(b"very-secret", (b"very-old",), b"very-secret"))
