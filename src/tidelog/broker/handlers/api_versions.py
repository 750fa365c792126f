"""ApiVersions (key 18), v0-v4. v3: client software name and version, features (KIP-511, KIP-584). v4: features with
level 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tidelog.broker.call import Call
from tidelog.controller.features import KRAFT_VERSION
from tidelog.metadata.image import ClusterImage, FeatureRange
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

FIRST_VERSION_WITH_SOFTWARE_NAME: Final = 3
FIRST_VERSION_WITH_LEVEL_ZERO: Final = 4
NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


class ApiVersionsHandler:
    def __init__(
        self,
        served: Callable[[], list[ApiVersion]],
        supported_features: Mapping[str, FeatureRange],
        image: Callable[[], ClusterImage],
        kraft_version: Callable[[], int],
    ) -> None:
        """`kraft_version` is the level that the quorum has: the image does not hold it."""
        self._served = served
        self._supported = supported_features
        self._image = image
        self._kraft_version = kraft_version

    def __call__(self, call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
        version = call.header.api_version
        if version >= FIRST_VERSION_WITH_SOFTWARE_NAME and not (
            _is_software_name(request.client_software_name) and _is_software_name(request.client_software_version)
        ):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
        image = self._image()
        return ApiVersionsResponse(
            api_keys=self._served(),
            supported_features=[
                SupportedFeatureKey(name, *levels)
                for name, levels in self._supported.items()
                # Clients before v4 do not understand a range that begins at 0.
                if levels.lowest > 0 or version >= FIRST_VERSION_WITH_LEVEL_ZERO
            ],
            finalized_features_epoch=image.offset,
            finalized_features=[
                FinalizedFeatureKey(name, level, level)
                for name, level in {**image.features, KRAFT_VERSION: self._kraft_version()}.items()
                if level > 0
            ],
        )


def _is_software_name(text: str) -> bool:
    """Letters and digits with dots and hyphens between them."""
    return bool(text) and NAME_CHARACTERS.issuperset(text) and text[0].isalnum() and text[-1].isalnum()
