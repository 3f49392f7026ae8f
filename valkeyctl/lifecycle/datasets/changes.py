"""What `check` refuses of a `Dataset`, before anything is written. Pure."""

from __future__ import annotations

from valkeyctl.lifecycle.changes import ChangeRefused, refuse_change_of_shape, refuse_lost_copies
from valkeyctl.lifecycle.datasets.declaration import handover_of
from valkeyctl.lifecycle.props import Props, is_unknown


def refuse_unsafe(olds: Props, news: Props) -> None:
    """Refuses what cannot be done safely. Errors: ChangeRefused."""
    refuse_lost_copies(olds, news)
    refuse_change_of_shape(olds, news, ("replicas", "architecture"))
    _refuse_nobody(news)


def _refuse_nobody(news: Props) -> None:
    """Refuses a role for a member that there won't be. The components say the same; this is for other programs."""
    if is_unknown([news.get(key) for key in ("replicas", "primary_ordinal", "handover")]):
        return
    replicas, wish, asked = int(news["replicas"]), news.get("primary_ordinal"), handover_of(news)
    if wish is not None and asked is not None:
        raise ChangeRefused(
            "both `primary` and `handover` are declared: the one says where the role stays, the other moves it once",
            where="handover",
            remedy="Declare one of them.",
        )
    for where, ordinal in (("primary", wish), ("handover.to", asked.to if asked else None)):
        if ordinal is not None and not 0 <= int(ordinal) <= replicas:
            raise ChangeRefused(
                f"there is no member {int(ordinal)}: with {replicas} replicas the ordinals are 0 to {replicas}",
                where=where,
                remedy="Name one of them.",
            )
