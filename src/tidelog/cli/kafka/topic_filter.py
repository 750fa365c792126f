"""Regular expressions of topic names as Kafka's commands take them: "a,b" means "a|b", and all of a name must match."""

from __future__ import annotations

import re

from tidelog.cli.failures import BadInput


class TopicFilter:
    """Which topics an expression means."""

    def __init__(self, expression: str) -> None:
        text = expression.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            self._pattern = re.compile(text)
        except re.error:
            raise BadInput(f"{text} is an invalid regex.") from None

    @property
    def pattern(self) -> re.Pattern[str]:
        """The expression, of which all of a name must match."""
        return self._pattern

    def matches(self, name: str) -> bool:
        return self._pattern.fullmatch(name) is not None
