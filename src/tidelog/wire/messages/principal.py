"""A client's principal as a broker sends it to the controller inside an Envelope (KIP-590)."""

from __future__ import annotations

from tidelog.wire.schema import Message, bool_, string


class DefaultPrincipalData(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"

    type: string = ""
    name: string = ""
    token_authenticated: bool_ = False
