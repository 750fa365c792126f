"""SCRAM as RFC 5802 and 7677 have it, and servers that do not know the password."""

from __future__ import annotations

import pytest

from tidelog.client.core.sasl import Plain, Scram
from tidelog.client.errors import AuthenticationFailed

# The exchange of RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CHALLENGE = f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram() -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_exchange_of_the_specification_comes_out() -> None:
    conversation = scram()
    assert conversation.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert conversation.answer(CHALLENGE) == f"c=biws,r={SERVER_NONCE},p={PROOF}".encode()
    assert conversation.answer(SIGNATURE) is None


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    conversation = scram()
    conversation.answer(CHALLENGE)
    with pytest.raises(AuthenticationFailed, match="does not know the password"):
        conversation.answer(b"v=AAAA")


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not follow"),
        (CHALLENGE.replace(b"i=4096", b"i=1"), "iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=99999999"), "iterations"),
        (CHALLENGE.replace(b"s=W22", b"s=!!!"), "no SCRAM"),
        (b"e=other-error", "other-error"),
    ],
)
def test_a_challenge_that_cannot_be_is_not_answered(challenge: bytes, words: str) -> None:
    with pytest.raises(AuthenticationFailed, match=words):
        scram().answer(challenge)


def test_names_with_special_letters_are_written_as_they_must_be() -> None:
    assert Scram("SCRAM-SHA-512", "a=b,c", "p", "N").first() == b"n,,n=a=3Db=2Cc,r=N"
    assert Plain("anna", "word").first() == b"\0anna\0word"
