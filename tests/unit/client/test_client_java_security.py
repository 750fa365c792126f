"""TLS and SASL by the names that Java's clients have for them."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tidelog.client.core.options import AdminOptions, ProducerOptions, is_setting, read_options
from tidelog.client.errors import InvalidOption
from tidelog.client.security import NO_SECURITY, security_in, security_of

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def options(**properties: str) -> AdminOptions:
    return read_options(AdminOptions, "a:1", {name.replace("__", "."): value for name, value in properties.items()})


def sasl(jaas: str, mechanism: str = "PLAIN") -> AdminOptions:
    return options(security__protocol="SASL_SSL", sasl__mechanism=mechanism, sasl__jaas__config=jaas)


@pytest.mark.parametrize(
    ("jaas", "username", "password"),
    [
        (f'{PLAIN} required username="anna" password="a b;c=d";', "anna", "a b;c=d"),
        (f"{SCRAM} required\n  username='anna'\n  password='it\\'s';", "anna", "it's"),
        (f"{PLAIN} REQUIRED serviceName=kafka username=anna password=secret;", "anna", "secret"),
        (f'{PLAIN} required username="a\\"b" password="back\\\\slash" ;', 'a"b', "back\\slash"),
    ],
)
def test_a_jaas_text_says_user_and_password(jaas: str, username: str, password: str) -> None:
    read = sasl(jaas)
    assert (read.sasl_username, read.sasl_password) == (username, password)


@pytest.mark.parametrize(
    ("jaas", "words"),
    [
        ("com.sun.security.auth.module.Krb5LoginModule required keyTab=secret;", "Krb5LoginModule"),
        ("username=anna password=secret", "no login module"),
        (f"{PLAIN} required username=anna;", "sasl_username and sasl_password"),
    ],
)
def test_a_jaas_text_that_is_not_understood_is_refused_without_repeating_it(jaas: str, words: str) -> None:
    with pytest.raises(InvalidOption, match=words) as refused:
        sasl(jaas)
    assert "secret" not in str(refused.value)


def test_nothing_that_is_secret_is_shown_with_the_options() -> None:
    read = sasl(f'{PLAIN} required username="anna" password="hidden-word";')
    assert "hidden-word" not in repr(read)


def test_stores_of_java_are_refused_with_the_way_to_pem() -> None:
    with pytest.raises(InvalidOption, match=r"type JKS.*PEM"):
        options(security__protocol="SSL", ssl__truststore__location="t.jks", ssl__truststore__type="JKS")


def test_an_empty_algorithm_looks_at_no_host_name() -> None:
    assert options(security__protocol="SSL").ssl_check_hostname
    read = options(security__protocol="SSL", ssl__endpoint__identification__algorithm="")
    assert not read.ssl_check_hostname


def test_old_protocols_are_refused_and_those_of_today_change_nothing() -> None:
    today = options(security__protocol="SSL", ssl__enabled__protocols="TLSv1.2,TLSv1.3", ssl__protocol="TLSv1.3")
    assert today == options(security__protocol="SSL")
    with pytest.raises(InvalidOption, match=r"TLSv1\.1"):
        options(security__protocol="SSL", ssl__enabled__protocols="TLSv1.1,TLSv1.2")


def test_the_same_thing_said_by_two_names_is_refused() -> None:
    with pytest.raises(InvalidOption, match="given twice"):
        options(security__protocol="SSL", ssl__cafile="a.pem", ssl__truststore__location="b.pem")


def test_certificates_are_read_from_a_store_of_pem_and_from_the_settings_themselves(tmp_path: Path) -> None:
    key, certificate = tmp_path / "own.key", tmp_path / "own.pem"
    making = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tidelog"]
    subprocess.run([*making, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_text(key.read_text() + certificate.read_text())

    of_files = {"ssl.truststore.location": str(certificate), "ssl.keystore.location": str(both)}
    of_texts = {
        "ssl.truststore.certificates": certificate.read_text(),
        "ssl.keystore.certificate.chain": certificate.read_text(),
        "ssl.keystore.key": key.read_text(),
    }
    for given in (of_files, of_texts):
        types = {"ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM", "ssl.keystore.password": "unused"}
        context = security_in({"security.protocol": "SSL", "acks": "all", **types, **given}).context
        assert isinstance(context, ssl.SSLContext)
        assert [each["subject"] for each in context.get_ca_certs()] == [((("commonName", "tidelog"),),)]


def test_a_file_that_is_no_pem_is_named(tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(InvalidOption, match=r"PEM from .*store\.jks"):
        security_of(options(security__protocol="SSL", ssl__truststore__location=str(store)))


def test_properties_without_a_word_of_security_need_none() -> None:
    given: dict[str, Any] = {"acks": "all", "bootstrap.servers": "a:1"}
    assert security_in(given) is NO_SECURITY


def test_a_setting_of_security_that_is_not_known_is_never_left_out_in_silence() -> None:
    with pytest.raises(InvalidOption, match=r"sasl\.oauthbearer"):
        security_in({"security.protocol": "SASL_SSL", "sasl.oauthbearer.token.endpoint.url": "https://a"})


def test_it_is_known_which_settings_a_client_has() -> None:
    names = ("linger.ms", "compression", "sasl.jaas.config", "ssl.truststore.location")
    assert all(is_setting(ProducerOptions, name) for name in names)
    assert not is_setting(ProducerOptions, "send.buffer.bytes") and not is_setting(ProducerOptions, "group.id")
