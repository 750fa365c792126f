"""TLS and SASL as Java's clients are told of them (`sasl.jaas.config`, `ssl.truststore.location` …), by our own names.

`options.py` asks it before it reads the settings of any client, so that a `client.properties` that exists serves. Pure:
what the files hold is seen when they are opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidelog.client.core.sasl import MECHANISMS
from tidelog.client.errors import InvalidOption

# Every setting of Kafka that has to do with security begins so; none of them may be left out in silence.
PREFIXES: Final = ("security.", "sasl.", "ssl.")
JAAS: Final = "sasl_jaas_config"
LOGIN_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")
PEM: Final = "PEM"
# Python's own TLS begins with 1.2; to ask for what is there already changes nothing.
PROTOCOLS: Final = frozenset({"TLS", "TLSv1.2", "TLSv1.3"})

_MODULE: Final = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b", re.IGNORECASE)
_OPTION: Final = re.compile(r"""(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""", re.DOTALL)


def security_settings(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Of all the properties of a client, those that say how its connections are protected."""
    return {name: value for name, value in properties.items() if name.startswith(PREFIXES)}


def without_java_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings by the names of our options (underscores for dots). InvalidOption for what only Java can do."""
    read: dict[str, Any] = {}
    for name, value in given.items():
        meant = TRANSLATIONS.get(name)
        for new, told in ({name: value} if meant is None else meant(value)).items():
            if new in read or (new != name and new in given):
                raise InvalidOption(f"{new} is given twice, once by {name.replace('_', '.')}.")
            read[new] = told
    return read


def _jaas(value: Any) -> dict[str, Any]:
    """Who the client says it is. The text is never repeated in a message: it holds the password."""
    dotted = JAAS.replace("_", ".")
    module = _MODULE.match(str(value))
    if module is None:
        example = "…PlainLoginModule required username=… password=…;"
        raise InvalidOption(f"{dotted} names no login module; write it as {example}")
    if module[1].rpartition(".")[2] not in LOGIN_MODULES:
        known = " and ".join(LOGIN_MODULES)
        raise InvalidOption(f"{dotted} names {module[1]}: only {known} are known ({', '.join(MECHANISMS)}).")
    said = {name: _unquoted(text) for name, text in _OPTION.findall(str(value)[module.end() :])}
    return {f"sasl_{name}": said[name] for name in ("username", "password") if name in said}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text[0] in "\"'" else text


def _store_type(value: Any) -> dict[str, Any]:
    if str(value).upper() != PEM:
        message = f"A store of type {value} is of Java's own making: export it as PEM (keytool -exportcert -rfc"
        raise InvalidOption(f"{message}, openssl pkcs12 -in FILE -nodes) and set the type to {PEM}.")
    return {}


def _protocols(value: Any) -> dict[str, Any]:
    unknown = sorted({name.strip() for name in str(value).split(",")} - PROTOCOLS)
    if unknown:
        raise InvalidOption(
            f"{unknown[0]} is no protocol that is spoken here; there are {', '.join(sorted(PROTOCOLS))}."
        )
    return {}


def _named(name: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {name: value}


def _nothing(value: Any) -> dict[str, Any]:
    """PEM has no password of its own; that of a key is `ssl.key.password`."""
    return {}


TRANSLATIONS: Final[Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    JAAS: _jaas,
    "ssl_truststore_location": _named("ssl_cafile"),
    "ssl_truststore_certificates": _named("ssl_cadata"),
    "ssl_truststore_type": _store_type,
    "ssl_truststore_password": _nothing,
    "ssl_keystore_location": _named("ssl_certfile"),
    "ssl_keystore_certificate_chain": _named("ssl_certdata"),
    "ssl_keystore_key": _named("ssl_keydata"),
    "ssl_keystore_type": _store_type,
    "ssl_keystore_password": _nothing,
    "ssl_endpoint_identification_algorithm": lambda value: {"ssl_check_hostname": bool(str(value).strip())},
    "ssl_protocol": _protocols,
    "ssl_enabled_protocols": _protocols,
}
