"""`rag-monitor plan`: how many answers must be judged, at what cost, until a worse rate would be noticed."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli.run import ConfigPath


def plan(
    *,
    rate: Annotated[str, typer.Option("--rate", help="The defect rate as it is now: 0.02 or 2%.")] = "2%",
    worse: Annotated[str, typer.Option("--worse", help="The rate that you want to notice.")] = "4%",
    threshold: Annotated[
        str | None, typer.Option("--threshold", help="Of the alert. Default: the evaluator's; else halfway between.")
    ] = None,
    judged_per_hour: Annotated[
        str, typer.Option("--judged-per-hour", metavar="N,N", help="How many answers are judged, one line for each.")
    ] = "10,30,100,300,1000",
    price: Annotated[
        float | None, typer.Option("--price-per-judgement", min=0, help="US dollars. Default: the judge's price.")
    ] = None,
    tokens: Annotated[
        str, typer.Option("--tokens", metavar="IN,OUT", help="Of a judgement, to tell its price by the judge's.")
    ] = "2000,200",
    evaluator: Annotated[
        str | None, typer.Option("--evaluator", help="Plan for its alert policy and its judge.")
    ] = None,
    config: ConfigPath = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object instead of a table.")] = False,
) -> None:
    """Say how soon a worse defect rate would be noticed, by how many judged answers, and what these cost.

    Both alert rules are simulated on answers of the same weight, a hundred times for every line.
    """
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.cli import planned  # noqa: PLC0415
    from monitor.cli.console.progress import Bars  # noqa: PLC0415

    loaded = configuration.load(config)
    asked, volumes = planned.question(loaded, rate, worse, threshold, evaluator), planned.volumes(judged_per_hour)
    costs = planned.price(loaded, evaluator, tokens) if price is None else planned.Price(price, "as given")
    with Bars().steps(len(volumes), "simulating") as done:
        found = planned.plan(asked, volumes=volumes, price=costs, done=done)
    if as_json:
        typer.echo(planned.as_json(found))
        return
    for line in planned.lines(found):
        typer.echo(line)
