"""What a diagnosis finds in rises with a planted cause, and how often it names a cause although there is none.

    python -m benchmarks.diagnosis [--alerts 40] [--only TABLE,TABLE] [--processes 4] [--keep FILE]

With the product's own functions, fixed seeds, and worlds of `benchmarks/planted.py`. `--alerts` is the number of alerts
in a cell; three times as many are made without a cause. Figures are followed by their standard error. `--keep` writes
each alert to a file when it is done, and reads those already in it: a run that was stopped continues. The file is
valid for one state of the code.
"""

from __future__ import annotations

import argparse
import math
import pickle
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final, NamedTuple, TypeVar

from benchmarks.planted import NOW, SEARCH, Planted, Situation, planted
from benchmarks.rates import table
from monitor.model.case import Case, Document, Request
from monitor.model.service_version import ServiceVersion
from monitor.privacy.pseudonyms import UserKey
from monitor.statistics.diagnosis import alert_looks, diagnose, diagnose_alert
from monitor.statistics.diagnosis.results import Diagnosis
from monitor.storage.history.features import dump_features, features_of, load_features
from monitor.storage.history.tables import create

USUAL: Final = Situation()
WITHOUT_CAUSE: Final = {
    "usual": USUAL,
    "100 judged": replace(USUAL, cases=100),
    "1,000 judged": replace(USUAL, cases=1000),
    "added, not multiplied": replace(USUAL, added=True),
    "5 to 10 %": replace(USUAL, since=0.1),
    "2 to 10 %": replace(USUAL, before=0.02, since=0.1),
    "15 to 35 %": replace(USUAL, before=0.15, since=0.35),
    "sessions of 3": replace(USUAL, session=3),
    "boosted": replace(USUAL, weights="boosted", cases=600),
    "weights of 2 to 100": replace(USUAL, weights="heavy", cases=480),
    "judge wrong in 10 %": replace(USUAL, noise=0.1),
    "10,500 documents": replace(USUAL, documents=10_500),
    "risks of .9": replace(USUAL, risks=0.9),
    "drift of .6": replace(USUAL, drift=0.6),
    "unrelated rollout": replace(USUAL, rollout=True),
    "slow, with hours of the day": replace(USUAL, slow=True),
    "five at once": replace(USUAL, session=3, noise=0.1, risks=0.9, drift=0.6, rollout=True),
}
CAUSES: Final = ("document", "tenant", "version", "topic", "pair", "empty")
JUDGED: Final = (100, 300, 1000)
"""About 20, 60 and 200 bad answers since the onset."""
EXPLAINED: Final = (0.3, 0.5, 0.8)
BASELINES: Final = (100, 200, 500, 1000, 2000)
BY_HAND: Final = 600.0
"""Seconds between the looks of a person who looks repeatedly."""

T = TypeVar("T")
OTHERWISE: Final = {
    "10,500 documents": replace(USUAL, documents=10_500),
    "drift of .6": replace(USUAL, drift=0.6),
    "risks of .9": replace(USUAL, risks=0.9),
    "judge wrong in 10 %": replace(USUAL, noise=0.1),
    "boosted": WITHOUT_CAUSE["boosted"],
    "weights of 2 to 100": WITHOUT_CAUSE["weights of 2 to 100"],
    "5 to 10 %, 300 judged": replace(USUAL, since=0.1),
    "5 to 10 %, 1,000 judged": replace(USUAL, since=0.1, cases=1000),
    "sessions of 3": replace(USUAL, session=3),
}


class Seen(NamedTuple):
    """One alert: what was planted, without its cases, and what was found."""

    planted: Planted
    found: Diagnosis

    @property
    def named(self) -> bool:
        """Whether anything was named."""
        return bool(self.found.factors)

    @property
    def first(self) -> bool:
        """Whether the first factor is the first cause."""
        causes = self.planted.causes
        return self.named and bool(causes) and self.found.factors[0].factor in causes[0]

    @property
    def wrong(self) -> bool:
        """Whether any factor is neither a cause nor a wider factor that contains it."""
        causes = frozenset[object]().union(*self.planted.causes, self.planted.coarse)
        return any(one.factor not in causes for one in self.found.factors)

    @property
    def covered(self) -> bool:
        """Whether the interval of the onset contains it."""
        onset = self.found.onset
        return onset is not None and onset.earliest <= self.planted.onset <= onset.latest


class Run:
    """Makes alerts in several processes, and keeps them in a file."""

    def __init__(self) -> None:
        self.pool: Executor | None = None
        self.path: Path | None = None
        self.known: dict[tuple[str, str, str], Any] = {}

    def keep(self, path: Path) -> None:
        """Read the alerts already in a file, and append new ones to it."""
        self.path = path
        if path.exists():
            with path.open("rb") as file:
                while True:
                    try:
                        key, value = pickle.load(file)
                    except (EOFError, pickle.UnpicklingError):
                        break
                    self.known[key] = value

    def all_of(self, work: Callable[[Situation, str], T], situation: Situation, number: int, seed: str) -> list[T]:
        """Return the work for this number of seeds."""
        keys = [(work.__name__, repr(situation), f"{seed} {index}") for index in range(number)]
        new = [key for key in keys if key not in self.known]
        one = partial(work, situation)
        made = map(one, (key[2] for key in new)) if self.pool is None else self.pool.map(one, [key[2] for key in new])
        found = dict(self._kept(zip(new, made, strict=True)))
        return [found[key] if key in found else self.known[key] for key in keys]

    def _kept(self, made: Iterator[tuple[tuple[str, str, str], T]]) -> Iterator[tuple[tuple[str, str, str], T]]:
        for pair in made:
            if self.path is not None:
                with self.path.open("ab") as file:
                    file.write(pickle.dumps(pair))
                self.known[pair[0]] = pair[1]
            yield pair


RUN: Final = Run()


def alerts(situation: Situation, number: int, seed: str) -> list[Seen]:
    """Plant and diagnose this number of alerts."""
    return RUN.all_of(_seen, situation, number, seed)


def _seen(situation: Situation, seed: str) -> Seen:
    made = planted(situation, seed)
    return Seen(made._replace(cases=[]), diagnose(made.cases, situation.search))


def share(found: Sequence[bool]) -> str:
    """Return a share and its standard error; half an alert is added, so that 0 and 1 do not look certain."""
    if not found:
        return "-"
    value, number = fmean(found), len(found)
    kept = (sum(found) + 0.5) / (number + 1)
    return f"{value:.2f} ±{math.sqrt(kept * (1 - kept) / number):.2f}"


def false_findings(number: int) -> None:
    """Print how often a diagnosis names a cause for a rise without one."""

    def rows() -> Iterator[tuple[str, ...]]:
        every: list[bool] = []
        for name, situation in WITHOUT_CAUSE.items():
            seen = alerts(situation, number, f"none {name}")
            every += (one.named for one in seen)
            switched = share([bool(one.found.switched) for one in seen])
            yield name, f"{fmean(one.found.bad for one in seen):.0f}", share([one.named for one in seen]), switched
        yield "all", "", f"{sum(every)} of {len(every)}: {share(every)}", ""

    table(
        f"False findings on rises without a cause, {number} alerts each",
        ("situation", "bad", "alerts that name something", "list what everything has since then"),
        rows(),
    )


def causes(number: int) -> None:
    """Print how often a cause is named first, and with which share and onset."""

    def rows() -> Iterator[tuple[str, ...]]:
        for cause in CAUSES:
            for judged in JUDGED:
                for explained in EXPLAINED:
                    seen = alerts(
                        replace(USUAL, cause=cause, explained=explained, cases=judged), number, f"{cause} {explained}"
                    )
                    yield cause, f"{judged / 5:.0f}", f"{explained:.0%}", *_recall(seen)

    table(
        f"Cause named first, {number} alerts each",
        (
            "cause",
            "bad",
            "explains",
            "first",
            "any wrong line",
            "bias of the share",
            "its interval holds",
            "as more of it",
            "coarse",
        ),
        rows(),
    )


def _recall(seen: Sequence[Seen]) -> tuple[str, ...]:
    first = [one for one in seen if one.first]
    off = [one.found.factors[0].share.value - one.planted.explained for one in first]
    held = [
        one.found.factors[0].share.lower <= one.planted.explained <= one.found.factors[0].share.upper for one in first
    ]
    coarse = sum(one.named and one.found.factors[0].factor in one.planted.coarse for one in seen)
    more = sum(one.found.factors[0].how == "more" for one in first)
    return (
        share([one.first for one in seen]),
        share([one.wrong for one in seen]),
        f"{fmean(off):+.2f}" if off else "-",
        share(held),
        f"{more}",
        f"{coarse}",
    )


def otherwise(number: int) -> None:
    """Print the same for a document that explains half of the rise, in other traffic."""

    def rows() -> Iterator[tuple[str, ...]]:
        for name, situation in OTHERWISE.items():
            seen = alerts(replace(situation, cause="document", explained=0.5), number, f"document {name}")
            yield name, f"{fmean(one.found.bad for one in seen):.0f}", *_recall(seen)[:2]

    table(f"One document, 50 % explained, {number} alerts each", ("traffic", "bad", "first", "any wrong line"), rows())


def bystanders(number: int) -> None:
    """Print how often a factor that only accompanies the cause, or that all answers share, is named."""

    def rows() -> Iterator[tuple[str, ...]]:
        for explained in (0.5, 0.8):
            for name in ("decoy", "twin"):
                decoy = name == "decoy"
                situation = replace(USUAL, cause="document", explained=explained, decoy=decoy, twin=not decoy)
                seen = alerts(situation, number, f"{name} {explained}")
                named = [any(f.factor in one.planted.bystanders for f in one.found.factors) for one in seen]
                yield name, f"{explained:.0%}", share([one.first for one in seen]), share(named), ""
        for judged in JUDGED[1:]:
            seen = alerts(replace(USUAL, full_rollout=True, cases=judged), number, f"rollout {judged}")
            listed = share([bool(one.found.switched) for one in seen])
            yield f"full rollout, {judged / 5:.0f} bad", "", "", share([one.named for one in seen]), listed

    table(
        f"Bystanders, {number} alerts each",
        ("bystander", "explains", "cause first", "bystander, or anything, named", "listed as what everything has"),
        rows(),
    )


def onsets(number: int) -> None:
    """Print how far the onset is off."""

    def rows() -> Iterator[tuple[str, ...]]:
        named = {f"{judged / 5:.0f} bad": replace(USUAL, cases=judged) for judged in JUDGED}
        others = ("5 to 10 %", "judge wrong in 10 %", "sessions of 3", "weights of 2 to 100", "five at once")
        for name, situation in {**named, **{one: WITHOUT_CAUSE[one] for one in others}}.items():
            seen = alerts(situation, number, f"onset {name}")
            found = [one.found.onset for one in seen if one.found.onset is not None]
            off = sorted(abs(one.at - USUAL.onset) / 60 for one in found)
            width = median(one.latest - one.earliest for one in found) / 60
            tail = off[min(int(0.9 * len(off)), len(off) - 1)]
            yield name, f"{median(off):.0f} / {tail:.0f}", share([one.covered for one in seen]), f"{width:.0f}"

    table(
        f"Onset, all cases, {number} alerts each",
        ("traffic", "error in minutes, median / 90 %", "interval holds", "its width"),
        rows(),
    )


def two_causes(number: int) -> None:
    """Print how much is found of two causes, each with 40 % of the rise."""

    def rows() -> Iterator[tuple[str, ...]]:
        for first, second in (("document", "tenant"), ("tenant", "version"), ("document", "empty")):
            for judged in JUDGED:
                situation = replace(
                    USUAL, cases=judged, cause=first, explained=0.4, second=second, second_explained=0.4
                )
                seen = alerts(situation, number, f"{first} {second}")
                hits = [
                    [any(f.factor in cause for f in one.found.factors) for cause in one.planted.causes] for one in seen
                ]
                yield (
                    f"{first} and {second}",
                    f"{judged / 5:.0f}",
                    share([any(one) for one in hits]),
                    share([all(one) for one in hits]),
                    share([one.wrong for one in seen]),
                )

    table(f"Two causes of 40 % each, {number} alerts each", ("causes", "bad", "one", "both", "any wrong line"), rows())


def baselines(number: int) -> None:
    """Print what a shorter baseline costs, with 60 bad answers since the onset."""

    def rows() -> Iterator[tuple[str, ...]]:
        for cases in BASELINES:
            none = alerts(replace(USUAL, baseline=cases), number, f"none baseline {cases}")
            seen = alerts(replace(USUAL, baseline=cases, cause="document", explained=0.5), number, f"baseline {cases}")
            refused = share([one.found.state == "too_few_before" for one in none])
            yield f"{cases:,}", refused, share([one.named for one in none]), *_recall(seen)[:2]

    table(
        f"Small baselines, one document, 50 % explained, {number} alerts each",
        ("judged before", "no diagnosis", "false without a cause", "cause first", "any wrong line"),
        rows(),
    )


def looks(number: int) -> None:
    """Print what repeated looks at one alert find: the product's looks, and a person's looks by hand."""

    def rows() -> Iterator[tuple[str, ...]]:
        longer = replace(USUAL, cases=800)
        at_once = replace(WITHOUT_CAUSE["five at once"], cases=800)
        document = replace(longer, cause="document")
        for name, fires, situation in (
            ("no cause", 20, longer),
            ("no cause", 10, longer),
            ("no cause, five at once", 20, at_once),
            ("no cause, slow, with hours", 20, replace(longer, slow=True)),
            ("document, 50 %", 20, replace(document, explained=0.5)),
            ("document, 80 %", 10, replace(document, explained=0.8)),
            ("tenant, 50 %", 20, replace(longer, cause="tenant", explained=0.5)),
        ):
            several = number if situation.cause else 3 * number
            seen = RUN.all_of(_LOOKING[fires], situation, several, f"looks {name}")
            most = max(map(len, seen))
            upto = [[any(look.first for look in one[: last + 1]) for one in seen] for last in range(most)]
            yield (
                name,
                str(fires),
                str(len(seen)),
                share([one[0].wrong for one in seen]),
                share([any(look.wrong for look in one) for one in seen]),
                share([one[-1].wrong for one in seen]),
                " / ".join(f"{fmean(one):.2f}" for one in upto) if situation.cause else "",
                share([one[-1].first for one in seen]) if situation.cause else "",
            )
        seen = RUN.all_of(_by_hand, longer, number, "looks no cause")
        wrong = share([one[0].wrong for one in seen]), share([any(look.wrong for look in one) for one in seen])
        yield (
            "no cause, by hand every ten minutes",
            "20",
            str(len(seen)),
            *wrong,
            share([o[-1].wrong for o in seen]),
            "",
            "",
        )

    table(
        "Repeated looks at one alert",
        (
            "rise",
            "bad when it fires",
            "alerts",
            "any wrong line at the first look",
            "at any look, so at any minute",
            "at the last",
            "cause first up to each look",
            "at the last",
        ),
        rows(),
    )


def _looks(fires: int, situation: Situation, seed: str) -> list[Seen]:
    """Return what each look finds at an alert that fires at this number of bad answers."""
    made = planted(situation, seed)
    bare = made._replace(cases=[])
    fired = _fired(made, fires)
    return [Seen(bare, one) for one in alert_looks(made.cases, fired - (NOW - situation.search), fired)]


def _looks_from_10(situation: Situation, seed: str) -> list[Seen]:
    return _looks(10, situation, seed)


def _looks_from_20(situation: Situation, seed: str) -> list[Seen]:
    return _looks(20, situation, seed)


_LOOKING: Final = {10: _looks_from_10, 20: _looks_from_20}


def _by_hand(situation: Situation, seed: str) -> list[Seen]:
    """Return what a person sees who repeatedly looks at all answers."""
    made = planted(situation, seed)
    bare, found = made._replace(cases=[]), []
    now = _fired(made, 20)
    while now <= NOW:
        known = [one for one in made.cases if one.time <= now]
        found.append(Seen(bare, diagnose(known, now - (NOW - situation.search))))
        now += BY_HAND
    return found


def _fired(made: Planted, bad: int) -> float:
    times = [one.time for one in made.cases if one.bad and one.time >= made.onset]
    return times[min(bad, len(times)) - 1]


def pace(_: int) -> None:
    """Print the processor time of one look, and of all looks at an alert."""

    def rows() -> Iterator[tuple[str, ...]]:
        for name, cases in (("2,000 + 5,000", 850), ("500 + 5,000", 210)):
            situation = replace(USUAL, cases=cases, baseline=5000, documents=40_000, cause="document", explained=0.5)
            made = planted(situation, "pace")
            distinct = {factor for one in made.cases for factor in one.factors}
            fired = _fired(made, 20)
            looks = len(list(alert_looks(made.cases, SEARCH, fired)))
            once = _least(partial(diagnose, made.cases, SEARCH))
            again = _least(partial(diagnose_alert, made.cases, SEARCH, fired))
            a_case = fmean(len(one.factors) for one in made.cases)
            took = f"{1000 * once:.0f}", f"{1000 * again:.0f} ({looks})"
            yield name, f"{len(made.cases):,}", f"{len(distinct):,}", f"{a_case:.0f}", *took

    table("Processor time", ("searched + before", "cases", "values", "a case", "ms", "ms of all looks"), rows())


def kept(_: int) -> None:
    """Print the processor time and the bytes that the features of one judged case take."""
    rng = random.Random("kept")
    key, version, number = UserKey(bytes(32)), ServiceVersion(prompt="v1"), 2000
    cases = [_usual_case(rng, index) for index in range(number)]
    with tempfile.TemporaryDirectory() as folder, closing(create(Path(folder) / "history.db")) as db:
        described = [features_of(one, version, key) for one in cases]
        rows = [(one.request_id, 0.0, dump_features(found)) for one, found in zip(cases, described, strict=True)]
        size = median(len(body) for _, _, body in rows)
        making = _least(lambda: [dump_features(features_of(one, version, key)) for one in cases])
        hashed = _least(lambda: [dump_features(features_of(one, version, key, texts=False)) for one in cases])

        def write() -> None:
            db.execute("BEGIN")
            db.execute("DELETE FROM features")
            db.executemany("INSERT INTO features VALUES (?, ?, ?)", rows)
            db.execute("COMMIT")

        writing = _least(write)
        reading = _least(lambda: [load_features(body) for _, _, body in rows])
    each = [
        ("found", making),
        ("found, words as hashes", hashed),
        ("written", writing),
        ("read by a diagnosis", reading),
    ]
    table(
        f"Features of a judged case with five documents and 14 words: {size:.0f} bytes",
        ("what", "us of processor time a case"),
        ((name, f"{1e6 * took / number:.0f}") for name, took in each),
    )


def _usual_case(rng: random.Random, index: int) -> Case:
    words = " ".join(f"word{int(5000 * rng.random() ** 2)}" for _ in range(14))
    found = [Document(words * 8, f"https://kb.example/guides/{rng.randrange(2000)}", rng.random()) for _ in range(5)]
    attributes = {"tenant": f"t{rng.randrange(20)}", "route": f"r{rng.randrange(4)}", "language": "en"}
    return Case(
        request_id=f"{index:032x}",
        request=Request(f"How do I {words}?"),
        retrieved_context=tuple(found),
        response=words * 4,
        app="shop",
        session_id=f"s{index // 2}",
        attributes=attributes,
    )


def _least(work: Callable[[], object]) -> float:
    """Return the processor seconds of the fastest of five rounds."""
    took = []
    for _ in range(5):
        begun = time.process_time()
        work()
        took.append(time.process_time() - begun)
    return min(took)


TABLES: Final[dict[str, Callable[[int], None]]] = {
    "pace": pace,
    "kept": kept,
    "false": false_findings,
    "causes": causes,
    "otherwise": otherwise,
    "bystanders": bystanders,
    "onset": onsets,
    "two": two_causes,
    "baselines": baselines,
    "looks": looks,
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="What a diagnosis finds, and how often falsely.")
    parser.add_argument("--alerts", type=int, default=8, help="alerts in a cell (8)")
    parser.add_argument("--only", default=",".join(TABLES), help=f"of {', '.join(TABLES)}")
    parser.add_argument("--processes", type=int, default=1, help="that make alerts (1)")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep alerts here, and go on with those that it has")
    given = parser.parse_args()
    if given.keep is not None:
        RUN.keep(given.keep)
    with ProcessPoolExecutor(given.processes) as pool:
        RUN.pool = pool if given.processes > 1 else None
        for name in given.only.split(","):
            TABLES[name](given.alerts * (3 if name == "false" else 1))


if __name__ == "__main__":
    main()
