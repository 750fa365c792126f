"""`tidelog cluster features`: what the brokers can run with, and what the cluster has agreed on."""

from __future__ import annotations

import click

from tidelog.cli.options import bootstrap_option, connect, format_option
from tidelog.cli.output import say, write_json, write_table


class FeatureLevel(click.ParamType[tuple[str, int]]):
    """`transaction.version=2`."""

    name = "FEATURE=LEVEL"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        name, _, level = str(value).partition("=")
        if not name or not level.isdecimal():
            self.fail(f"'{value}' is no feature with its level, such as transaction.version=2.", param, ctx)
        return name, int(level)


@click.command()
@click.argument("changes", nargs=-1, type=FeatureLevel(), metavar="[FEATURE=LEVEL]…")
@click.option("--downgrade", is_flag=True, help="Allow levels below the present ones; 0 disables a feature.")
@click.option("--dry-run", is_flag=True, help="Only say whether it could be done.")
@bootstrap_option
@format_option
def features(changes: tuple[tuple[str, int], ...], downgrade: bool, dry_run: bool, bootstrap: str, format_: str) -> int:
    """Show the features of the cluster and the levels they are at, after changing some."""
    from tidelog.client.features import Direction, describe_features, update_features
    from tidelog.model.metadata_versions import show_level

    with connect(bootstrap) as connected:
        direction = Direction.SAFE_DOWNGRADE if downgrade else Direction.UPGRADE
        answers = update_features(connected, dict(changes), direction, dry_run=dry_run) if changes else {}
        found = describe_features(connected)
    refused = {name: rejected for name, rejected in answers.items() if rejected is not None}
    for name, rejected in refused.items():
        say(f"{name}: {rejected}")
    if format_ == "json":
        write_json(
            [
                {"feature": one.name, "level": one.level, "lowest": one.lowest, "highest": one.highest}
                for one in found.features
            ]
        )
    else:
        write_table(
            ["feature", "level", "supported"],
            [
                (
                    one.name,
                    show_level(one.name, one.level),
                    f"{show_level(one.name, one.lowest)} to {show_level(one.name, one.highest)}",
                )
                for one in found.features
            ],
        )
    return int(bool(refused))
