"""DescribeUserScramCredentials (key 50), v0 (KIP-554). No user has credentials here: clients do not log in yet."""

from __future__ import annotations

from collections import Counter

from tidelog.broker.call import Call
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


class DescribeUserScramCredentialsHandler:
    def __call__(
        self, call: Call, request: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsResponse:
        named = Counter(user.name for user in request.users or ())
        return DescribeUserScramCredentialsResponse(
            error_message=None, results=[_refused(user, times) for user, times in named.items()]
        )


def _refused(user: str, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return DescribeUserScramCredentialsResult(user, ErrorCode.DUPLICATE_RESOURCE, message)
    message = f"Attempt to describe a user credential that does not exist: {user}"
    return DescribeUserScramCredentialsResult(user, ErrorCode.RESOURCE_NOT_FOUND, message)
