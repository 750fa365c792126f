"""The admin client for asyncio: the methods of `Admin`, awaited.

    async with AsyncAdmin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topic("orders", partitions=6)

Admin calls are few and small, so they run in a thread beside the loop, one at a time: one implementation for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from tidelog.client.blocking.admin import Admin
from tidelog.client.core.settings_types import AdminSettings

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(
    method: Callable[Concatenate[Admin, P], T],
) -> Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, T]]:
    """A method of the blocking client, to be awaited."""

    @wraps(method)
    async def call(self: AsyncAdmin, /, *arguments: P.args, **named: P.kwargs) -> T:
        work = partial(method, self._admin, *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    return call


class AsyncAdmin:
    """Asks a cluster about itself and changes it, from an asyncio program."""

    def __init__(self, config: Mapping[str, Any] | str | None = None, /, **settings: Unpack[AdminSettings]) -> None:
        """Settings by Kafka's names, named (`bootstrap_servers=...`) or as a mapping of dotted names."""
        self._admin = Admin(config, **settings)
        self._worker = ThreadPoolExecutor(1, "tidelog-admin")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._worker, self._admin.close)
        self._worker.shutdown(wait=False)

    list_topics = in_thread(Admin.list_topics)
    describe_topics = in_thread(Admin.describe_topics)
    describe_topic = in_thread(Admin.describe_topic)
    create_topics = in_thread(Admin.create_topics)
    create_topic = in_thread(Admin.create_topic)
    delete_topics = in_thread(Admin.delete_topics)
    delete_topic = in_thread(Admin.delete_topic)
    create_partitions = in_thread(Admin.create_partitions)
    list_offsets = in_thread(Admin.list_offsets)
    delete_records = in_thread(Admin.delete_records)
    describe_configs = in_thread(Admin.describe_configs)
    describe_topic_configs = in_thread(Admin.describe_topic_configs)
    alter_configs = in_thread(Admin.alter_configs)
    describe_quotas = in_thread(Admin.describe_quotas)
    alter_quotas = in_thread(Admin.alter_quotas)
    list_groups = in_thread(Admin.list_groups)
    describe_groups = in_thread(Admin.describe_groups)
    describe_group = in_thread(Admin.describe_group)
    delete_groups = in_thread(Admin.delete_groups)
    list_group_offsets = in_thread(Admin.list_group_offsets)
    group_lag = in_thread(Admin.group_lag)
    alter_group_offsets = in_thread(Admin.alter_group_offsets)
    reset_group_offsets = in_thread(Admin.reset_group_offsets)
    delete_group_offsets = in_thread(Admin.delete_group_offsets)
    list_transactions = in_thread(Admin.list_transactions)
    describe_transaction = in_thread(Admin.describe_transaction)
    terminate_transaction = in_thread(Admin.terminate_transaction)
    describe_cluster = in_thread(Admin.describe_cluster)
    describe_log_dirs = in_thread(Admin.describe_log_dirs)
    unregister_broker = in_thread(Admin.unregister_broker)
    elect_leaders = in_thread(Admin.elect_leaders)
    alter_reassignments = in_thread(Admin.alter_reassignments)
    list_reassignments = in_thread(Admin.list_reassignments)
    describe_quorum = in_thread(Admin.describe_quorum)
