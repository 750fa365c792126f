"""An Apache Kafka that asks for TLS or SASL, with the certificate by which it is known and the settings to reach it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

from harness.apache_kafka import apache_kafka, java_command
from harness.server import HOST, free_port

USER: Final = "anna"
PASSWORD: Final = "s3cret-word"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
CONTROLLERS: Final = ("CONTROLLER", "PLAINTEXT")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class SecuredKafka:
    """A broker with a listener for each way."""

    def __init__(self, folder: Path) -> None:
        self.tls_port, self.sasl_port = free_port(), free_port()
        self.certificate, key = folder / "broker.pem", folder / "broker.key"
        subject = ["-subj", "/CN=tidelog", "-addext", f"subjectAltName=IP:{HOST}"]
        making = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
        subprocess.run([*making, "-keyout", key, "-out", self.certificate], check=True, capture_output=True)
        one_line = {path: path.read_text().strip().replace("\n", "\\n") for path in (key, self.certificate)}
        port, controller_port = free_port(), free_port()
        listeners = {"PLAINTEXT": port, "SSL": self.tls_port, "SASL_SSL": self.sasl_port}
        addresses = ",".join(f"{name}://{HOST}:{number}" for name, number in listeners.items())
        jaas = f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
        settings = {
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "listeners": f"{addresses},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": addresses,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in [*((each, each) for each in listeners), CONTROLLERS]
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": one_line[key],
            "ssl.keystore.certificate.chain": one_line[self.certificate],
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        }
        self.server = apache_kafka(folder / "kafka", settings, port=port)

    def tls(self) -> dict[str, Any]:
        """The settings of our client for the listener with TLS."""
        servers = f"{HOST}:{self.tls_port}"
        return {"bootstrap_servers": servers, "security_protocol": "SSL", "ssl_cafile": str(self.certificate)}

    def sasl(self, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
        """The same with SASL inside TLS."""
        return {
            **self.tls(),
            "bootstrap_servers": self.sasl_servers,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": mechanism,
            "sasl_username": USER,
            "sasl_password": password,
        }

    @property
    def sasl_servers(self) -> str:
        return f"{HOST}:{self.sasl_port}"

    def sasl_properties(self, mechanism: str = "PLAIN", password: str = PASSWORD) -> dict[str, str]:
        """The same by the names of Java's clients, for whoever takes a `client.properties`."""
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{USER}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificate),
        }

    def add_scram_user(self) -> None:
        """By a real tool of Apache Kafka, over the listener that asks for nothing."""
        for mechanism in MECHANISMS[1:]:
            alter = ["--alter", "--entity-type", "users", "--entity-name", USER]
            config = ["--add-config", f"{mechanism}=[password={PASSWORD}]"]
            server = ["--bootstrap-server", self.server.bootstrap_servers]
            command = java_command("kafka.admin.ConfigCommand", *server, *alter, *config)
            subprocess.run(command, check=True, capture_output=True)
