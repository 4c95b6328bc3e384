"""What boosting gains and what it must not cost, on simulated streams; `python -m benchmarks.simulation` at length."""

from __future__ import annotations

import json
import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import learned
from benchmarks.answers import Mix, Row, binormal, mixed
from benchmarks.simulation import closed_loop, halved, learned_mean, oracle, steady, synthetic
from monitor.statistics.defect_model import INPUTS
from monitor.statistics.rates import Sums
from monitor.statistics.sampling_gain import Watch, gain
from tests.support.paths import DATA

pytestmark = pytest.mark.lengthy

MTRAG = DATA / "boosted" / "mtrag.json"


@pytest.mark.parametrize(("auroc", "published"), [(0.8, 1.40), (0.9, 1.99), (0.95, 2.75)])
def test_after_a_few_thousand_verdicts_the_gain_is_that_of_who_knows_the_truth(auroc, published) -> None:
    *_, late = learned_mean(partial(synthetic, auroc, 0.02), streams=1, checkpoints=(2000,))
    best = oracle(auroc, 0.02, random.Random(0))
    assert best == pytest.approx(published, rel=0.05)
    assert late == pytest.approx(best, rel=0.05)


def test_on_answers_that_people_have_labelled_it_gains_a_quarter_and_more_from_the_start() -> None:
    rows = [Row(tuple(row[:-2]), row[-2] == 1, str(row[-1])) for row in json.loads(MTRAG.read_text())]
    found = learned_mean(partial(halved, rows, 0.02), streams=3, checkpoints=(200, 1000))
    assert min(found) > 1.25


def test_with_a_score_that_means_nothing_a_tenth_is_lost_at_most_before_and_after_that_is_learned() -> None:
    found = learned_mean(partial(synthetic, 0.5, 0.02), streams=2, checkpoints=(200, 1000))
    assert min(found) > 0.9


@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_with_answers_of_which_nothing_can_be_known_next_to_nothing_is_lost_however_the_judge_errs(wrong) -> None:
    found = learned_mean(partial(learned.useless, error=wrong), streams=3, checkpoints=(200,))
    assert min(found) > 0.93


def test_the_order_learned_from_verdicts_some_of_them_wrong_is_better_than_the_untrained_on_answers_of_other_groups():
    rng = random.Random(6)
    rows = []
    for number in range(600):  # the first input tells a little, the second much more
        defect = number % 3 == 0
        seen = (rng.gauss(defect, 1), rng.gauss(2 * defect, 1), *(rng.gauss(0, 1) for _ in INPUTS[2:]))
        rows.append(Row(tuple(max(min(one, 3.0), -3.0) for one in seen), defect, str(number // 2)))
    (apart,) = learned.folds(rows, 1)
    run = learned.streamed(rows, apart, rng, error=0.05, rate=0.1, checkpoints=(100, 400))
    untrained = learned.told_apart([row for row in rows if row.group in apart], learned.blend)
    assert run.held[0].auroc == untrained, "before the first verdict it is the untrained order"
    assert run.held[-1].auroc > untrained + 0.05
    assert run.before[1] > run.before[0], "on the judged cases, each score as it stood before the verdict"


def test_groups_are_held_out_whole_and_each_of_them_equally_often() -> None:
    rows = [Row((0.0,) * len(INPUTS), defect=False, group=str(number % 10)) for number in range(30)]
    held = [one for apart in learned.folds(rows, 8) for one in apart]
    assert sorted(held) == sorted(2 * [str(number) for number in range(10)])


def test_the_benchmark_says_what_to_do_where_there_are_no_labelled_answers(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv(learned.FOLDER, raising=False)
    for arguments in ([], ["--data", str(tmp_path)]):
        with pytest.raises(SystemExit, match=learned.FOLDER):
            learned.main(arguments)


def test_the_benchmark_prints_its_tables_of_the_sets_that_are_there(tmp_path, monkeypatch, capsys) -> None:
    words = [f"word{number}" for number in range(60)]
    rng = random.Random(7)
    answers = []
    for number in range(80):
        context, other = rng.sample(words, 12), rng.sample(words, 6)
        defect = number % 2
        response = " ".join(other if defect else context[:6])
        answers.append({"id": str(number), "question": "Which words?", "contexts": [" ".join(context)],
                        "response": response, "label": defect, "group": str(number // 2)})  # fmt: skip
    (tmp_path / f"{learned.SETS[0]}.jsonl").write_text("\n".join(map(json.dumps, answers)))
    for name, value in (("CHECKPOINTS", (5, 10)), ("_AT", (10,)), ("_SAMPLED", (50,))):
        monkeypatch.setattr(learned, name, value)
    learned.main(["--data", str(tmp_path), "--quick"])
    printed = capsys.readouterr().out
    assert printed.count(learned.SETS[0]) == len(learned.ERRORS)
    assert "nan" not in printed


def test_auroc_counts_equal_scores_half() -> None:
    assert learned.auroc([1.0, 2.0], [1.0, 0.0]) == 7 / 8
    assert learned.auroc([1.0], [1.0]) == 0.5


def test_the_worst_answers_are_counted_by_the_traffic_that_they_stand_for() -> None:
    rows = [Row((1.0,), defect=True, group="a"), Row((0.0,), defect=False, group="b")]
    assert learned.found_among_worst(Mix(rows, [0.04, 0.96]), learned.blend, 0.05) == pytest.approx(0.8)


def test_rates_stay_true_while_the_model_learns() -> None:
    rows = binormal(0.9, 1000, random.Random(0))
    runs = [
        closed_loop(rows, per_day=1500, per_minute=10, minutes=600, rng=random.Random(seed), rate=0.1, load=steady)
        for seed in range(12)
    ]
    residuals = [run.residual / run.cases / 0.1 for run in runs]
    mean = sum(residuals) / len(residuals)
    error = (sum((one - mean) ** 2 for one in residuals) / len(residuals) / (len(residuals) - 1)) ** 0.5
    assert abs(mean) < 3 * error
    assert error < 0.05


def test_the_gain_that_is_shown_is_the_gain_that_there_is() -> None:
    rows = binormal(0.9, 2000, random.Random(0))
    run = closed_loop(rows, per_day=9000, per_minute=60, minutes=1440, rng=random.Random(1), rate=0.05, load=steady)
    assert gain(run.sums) == pytest.approx(oracle(0.9, 0.05, random.Random(0)), rel=0.2)


def test_an_even_draw_gains_nothing_and_no_defect_tells_nothing() -> None:
    even = sum((Sums.of(20.0, defect=number % 10 == 0) for number in range(500)), Sums())
    assert gain(even) == pytest.approx(1.0)
    assert gain(sum((Sums.of(20.0, defect=False) for _ in range(9)), Sums())) is None
    assert gain(Sums()) is None


@given(days=st.integers(0, 20))
def test_harm_is_forgotten_after_seven_days(days) -> None:
    watch = Watch()
    for number in range(2000):
        watch.add(2.0 if number % 20 == 0 else 0.5 + number % 2, 0.0, defect=number % 20 == 0)
    assert (watch.loses(days * 86400.0) is not None) is (days < 7)


@given(rate=st.floats(0.001, 0.5))
def test_answers_are_mixed_to_the_rate_that_is_wanted(rate) -> None:
    mix = mixed(binormal(0.8, 100, random.Random(0)), rate)
    found = sum(often for row, often in zip(*mix, strict=True) if row.defect)
    assert found == pytest.approx(rate)
    assert sum(mix.often) == pytest.approx(1)
