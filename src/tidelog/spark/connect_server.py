"""A server of Spark Connect from what pip installs: the driver for clients that bring no Java (`sc://host:port`).

The source is found without registration, as `pyspark_tidelog` on the server's own path. Clients need
`pip install 'tidelog[spark-connect]'`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tidelog.spark.processes import LOOPBACK, SMALL_JAVA, SparkProcess, spark_command, spark_environment
from tidelog.spark.session import DEFAULTS, LOCAL_DEFAULTS

SERVER_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
# On a cluster: executors only while there is work, so that others who use the cluster are not kept waiting for ever.
WHILE_THERE_IS_WORK: Final = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "10s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "30s",
}
SERVER_READY: Final = r"Spark Connect server started at: \S*:(\d+)"


class ConnectServer:
    """The server, until it is stopped. `master` is where its executors run, such as a `StandaloneCluster.url`."""

    def __init__(
        self,
        folder: Path,
        *,
        master: str = "local[2]",
        port: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        chosen = {
            **DEFAULTS,
            **LOCAL_DEFAULTS,
            **WHILE_THERE_IS_WORK,
            "spark.driver.extraJavaOptions": SMALL_JAVA,
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
            **(settings or {}),
        }
        command = [spark_command("spark-submit"), "--class", SERVER_CLASS, "--master", master]
        for key, value in chosen.items():
            command += ["--conf", f"{key}={value}"]
        # Spark counts this server among its daemons, whose memory is set so.
        environment = spark_environment(LOOPBACK, SPARK_DAEMON_MEMORY=chosen["spark.driver.memory"])
        self.process = SparkProcess("connect-server", command, folder, environment)
        try:
            self.url = f"sc://{LOOPBACK}:{self.process.wait_for(SERVER_READY)[1]}"
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self.process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
