"""The probe: before a model is first asked in a role, does it play that role at all?

It is asked about drawn scenes of the miniature whose truth is known, in two orders. A judge that cannot tell these
apart, or whose answers move with their order, would fill a benchmark with noise without any error. Players that know
the truth or were calibrated on pairs of known truth (oracle, adapters) have nothing to show: they are exempt.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from PIL import Image

from hierbench.cleaning import questions
from hierbench.cleaning.answers import Answers
from hierbench.cleaning.backends.yes_no import ENOUGH
from hierbench.cleaning.roles import Pair, Question
from hierbench.errors import JudgeError

VERSION = 1  # of the questions and of what passes; a role that passed another version is probed again
NOTE = "probe.json"
EXEMPT = ("oracle", "adapter")  # backends

SCENES = 8
ENLARGED = 6  # times the side of a scene: judges are made for photographs
UNSTEADY = (
    0.1  # most that an answer may move with the order: half precision in another batch moves some hundredths
)
FLAT = 0.04  # from the lowest to the highest score: such scores say nothing
WRONG = 0.25  # largest share of questions answered wrongly
APART = {
    "verifier": 0.2,
    "embedder": 0.01,
    "reranker": 0.1,
}  # least mean score of true pairs above that of false ones
NEITHER = 0.2  # largest share of answers that are neither yes nor no

TEMPLATE = "python -m hierbench.cleaning.backends.prompts"
REPAIR = {
    "verifier": "ask a model that follows instructions, such as Qwen/Qwen3-VL-8B-Instruct",
    "embedder": "serve an embedding model for images and text, such as Qwen/Qwen3-VL-Embedding-8B",
    "reranker": f"serve the reranker with its chat template (`{TEMPLATE}` writes it) and its two-token head",
}
ALOUD = "it may think aloud first: take an Instruct model, or serve it with thinking off"
ORDER = "each score must carry the index of its own caption, and no item of a batch may touch another"
REGARDLESS = "--no-probe goes on regardless"


@dataclass(frozen=True)
class Scene:
    """A drawn scene with one thing: its picture, a caption that is true of it, and a more general one."""

    image: bytes
    caption: str
    general: str


@cache
def scenes() -> tuple[Scene, ...]:
    """`SCENES` scenes, of which no caption is true of another; neighbours differ in colour too."""
    from hierbench.miniature.captions import chain, is_true
    from hierbench.miniature.scenes import all_scenes, render

    chosen: list[Any] = []
    for scene in all_scenes("test"):
        if len(scene.things) > 1 or scene.things[0].size != "large":
            continue
        if any(
            is_true(caption.meaning, shown)
            for other in chosen
            for told, shown in ((other, scene), (scene, other))
            for caption in chain(told)[1:]
        ):
            continue
        if not chosen or chosen[-1].things[0].colour != scene.things[0].colour:
            chosen.append(scene)
        if len(chosen) == SCENES:
            break
    told = [chain(scene) for scene in chosen]
    return tuple(
        Scene(_enlarged(render(scene).pixels), captions[2].text, captions[1].text)
        for scene, captions in zip(chosen, told, strict=True)
    )


def _enlarged(pixels: np.ndarray) -> bytes:
    image, out = Image.fromarray(pixels.repeat(ENLARGED, 0).repeat(ENLARGED, 1)), io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


# --------------------------------------------------------------------------------------------------------- asking


def probe(role: str, player: Any) -> dict[str, Any] | None:
    """Ask a player of a role ("verifier", "embedder", "reranker"); what was seen, for a manifest. None: it is exempt.

    Raises JudgeError, one line with role, model, what was seen and what to do; and what the player raises.
    """
    if player.identity.get("backend") in EXEMPT:
        return None
    return {"verifier": _verifier, "embedder": _embedder, "reranker": _reranker}[role](player)


def _verifier(player: Any) -> dict[str, Any]:
    shown = scenes()
    true = [Question(questions.describes(s.caption), s.image) for s in shown]
    true += [Question(questions.entails(s.caption, s.general)) for s in shown]
    false = [
        Question(questions.describes(other.caption), s.image)
        for s, other in zip(shown, _next(shown), strict=True)
    ]
    false += [
        Question(questions.entails(s.caption, other.caption))
        for s, other in zip(shown, _next(shown), strict=True)
    ]
    with_share = getattr(player, "probability_and_share", None)
    scores, moved = _both_orders(with_share or player.probability_of_yes, true + false)
    if with_share:
        few = int((scores[:, 1] < ENOUGH).sum())
        if few > NEITHER * len(scores):
            raise _failed(
                "verifier", player, f"{few} of {len(scores)} answers were neither yes nor no", ALOUD
            )
        scores = scores[:, 0]
    yes, no = scores[: len(true)], scores[len(true) :]
    for said, answered, kind in (("yes", no >= 0.5, "false"), ("no", yes < 0.5, "true")):
        if answered.mean() > WRONG:
            seen = f"it says {said} to {int(answered.sum())} of {len(answered)} {kind} captions"
            raise _failed("verifier", player, seen, REPAIR["verifier"])
    wrong = float(np.concatenate([no >= 0.5, yes < 0.5]).mean())
    return _judged("verifier", player, yes, no, wrong, moved)


def _reranker(player: Any) -> dict[str, Any]:
    shown = scenes()
    asked = shown[: SCENES // 2]
    pairs = [Pair(s.image, other.caption) for s in asked for other in shown]
    scores, moved = _both_orders(player.relevance, pairs)
    return _told_apart("reranker", player, scores.reshape(len(asked), len(shown)), moved)


def _embedder(player: Any) -> dict[str, Any]:
    shown = scenes()
    images, one = _both_orders(player.embed_images, [s.image for s in shown])
    texts, other = _both_orders(player.embed_texts, [s.caption for s in shown])
    return _told_apart("embedder", player, images.astype(np.float64) @ texts.T, max(one, other))


def _told_apart(role: str, player: Any, scores: np.ndarray, moved: float) -> dict[str, Any]:
    """(n, m) scores of images with captions, of which [i, i] alone are true."""
    true = scores.diagonal()
    false = np.stack([np.delete(row, place) for place, row in enumerate(scores)])
    return _judged(role, player, true, false, float((false >= true[:, None]).mean()), moved)


def _judged(
    role: str, player: Any, true: np.ndarray, false: np.ndarray, wrong: float, moved: float
) -> dict[str, Any]:
    everything = np.concatenate([true.ravel(), false.ravel()])
    apart = float(true.mean() - false.mean())
    if np.ptp(everything) <= FLAT:
        seen = f"all scores lie between {everything.min():.3f} and {everything.max():.3f}"
        raise _failed(role, player, seen, REPAIR[role])
    if moved > UNSTEADY:
        raise _failed(role, player, f"in another order answers differ by up to {moved:.2f}", ORDER)
    if wrong > WRONG or apart < APART[role]:
        seen = (
            f"{wrong:.0%} of what it was asked came out wrong, true captions score {true.mean():.2f} and false ones "
            f"{false.mean():.2f}"
        )
        raise _failed(role, player, seen, REPAIR[role])
    return {
        "version": VERSION,
        "asked": len(everything),
        "wrong": round(wrong, 3),
        "mean_of_true": round(float(true.mean()), 3),
        "mean_of_false": round(float(false.mean()), 3),
        "moved_with_order": round(moved, 3),
    }


def _both_orders(
    ask: Callable[[Sequence[Any]], np.ndarray], items: Sequence[Any]
) -> tuple[np.ndarray, float]:
    """Answers, and the most that one differs (a vector: in length) when the items are asked from last to first."""
    forth, back = np.asarray(ask(items)), np.asarray(ask(items[::-1]))[::-1]
    return forth, float(np.linalg.norm((forth - back).reshape(len(items), -1), axis=1).max())


def _next(shown: Sequence[Scene]) -> Sequence[Scene]:
    return [*shown[1:], shown[0]]


def _failed(role: str, player: Any, seen: str, repair: str) -> JudgeError:
    who = getattr(player, "server", None) or f"the {role}"
    return JudgeError(
        f"{who}, {player.identity.get('model')}: on drawn scenes of known truth {seen}: {repair}; {REGARDLESS}"
    )


# -------------------------------------------------------------------------------------------------- once per folder


@dataclass
class Probes:
    """Probes each role before its first question, unless it has passed in this folder of answers before."""

    players: Mapping[str, Any]  # by role
    answers: Mapping[str, Answers]  # by role
    wanted: bool

    def before(self, role: str) -> None:
        """Called where a role is about to be asked. Raises JudgeError, and what the player raises."""
        if not self.wanted or self._passed(role):
            return
        seen = probe(role, self.players[role])
        if seen is not None:
            self.answers[role].keep_note(NOTE, seen)

    def record(self) -> dict[str, Any]:
        """For a manifest: what was seen of each role; why nothing was."""
        return {role: self._passed(role) or self._why(role) for role in self.players}

    def _passed(self, role: str) -> dict[str, Any] | None:
        note = self.answers[role].note(NOTE)
        return note if note.get("version") == VERSION else None

    def _why(self, role: str) -> str:
        exempt = self.players[role].identity.get("backend") in EXEMPT
        return "exempt: it knows the truth or was calibrated on it" if exempt else "not probed"
