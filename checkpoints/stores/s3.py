"""Objects in an S3-compatible bucket: Amazon's, MinIO, Ceph, Cloudflare R2, …"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from checkpoints.errors import MissingObject, StoreFull, StoreUnavailable
from checkpoints.stores.names import PROBE, check_size, checked

CONNECT_SECONDS, READ_SECONDS, TRIES = 5, 60, 3

_MISSING = {"NoSuchKey", "404"}
_TAKEN = {"PreconditionFailed", "ConditionalRequestConflict", "412"}
_FULL = {"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "507"}


class S3Store:
    """An object per object, under a prefix. Written only where there is none yet."""

    kind = "s3"

    def __init__(
        self, bucket: str, prefix: str, *, endpoint: str | None, region: str | None
    ) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._place = (endpoint, region)
        self.where = f"the bucket s3://{bucket}/{prefix} (BLOB_STORE)"

    def __repr__(self) -> str:
        return f"S3Store('s3://{self._bucket}/{self._prefix}')"

    def write(self, name: str, data: bytes) -> None:
        check_size(len(data))
        key = self._key(name)
        try:
            with self._troubles(name) as client:
                client.put_object(
                    Bucket=self._bucket,
                    Key=key,
                    Body=data,
                    ContentType="application/octet-stream",
                    IfNoneMatch="*",
                )
        except FileExistsError as taken:
            # Where an answer was lost, boto3's next try meets what its first one wrote.
            if not _was_tried_again(taken) or self.read(name) != data:
                raise
            return
        if self.read(name) != data:
            self.delete(name)
            raise StoreUnavailable(
                f"An object read back from {self.where} is not what was written."
            )

    def read(self, name: str) -> bytes:
        key = self._key(name)
        with self._troubles(name) as client:
            found = client.get_object(Bucket=self._bucket, Key=key)
            with contextlib.closing(found["Body"]) as body:
                check_size(found["ContentLength"])
                data: bytes = body.read()
        return data

    def delete(self, name: str) -> bool:
        key = self._key(name)
        try:
            with self._troubles(name) as client:
                client.head_object(Bucket=self._bucket, Key=key)
                client.delete_object(Bucket=self._bucket, Key=key)
        except MissingObject:
            return False
        return True

    def names(
        self, prefix: str = "", *, older_than: timedelta = timedelta()
    ) -> Iterator[str]:
        latest = datetime.now(UTC) - older_than
        with self._troubles(prefix) as client:
            pages = client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            for page in pages:
                for found in page.get("Contents", ()):
                    if found["LastModified"] <= latest:
                        yield found["Key"].removeprefix(self._prefix)

    def check(self) -> None:
        name = f"check/{secrets.token_hex(20)}"
        self.write(name, bytes(PROBE))
        self.delete(name)

    def _key(self, name: str) -> str:
        return self._prefix + checked(name)

    @contextlib.contextmanager
    def _troubles(self, name: str) -> Iterator[Any]:
        """The client; its errors, by what people can do about them."""
        client, errors = _client(*self._place)
        try:
            yield client
        except errors.ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in _MISSING:
                raise MissingObject(
                    f"The object {name} is not in {self.where}."
                ) from error
            if code in _TAKEN:
                raise FileExistsError(f"{name} is in {self.where} already.") from error
            if code in _FULL:
                raise StoreFull(
                    f"There is no room left in {self.where} ({code}). Free some space"
                    " there, or raise its quota."
                ) from error
            raise StoreUnavailable(
                f"{self.where} refused ({code}). Check the bucket's name and rights,"
                " and the credentials that boto3 finds."
            ) from error
        except errors.BotoCoreError as error:
            raise StoreUnavailable(
                f"{self.where} does not answer ({type(error).__name__}). Check"
                " BLOB_S3_ENDPOINT, the network and boto3's credentials."
            ) from error


def _was_tried_again(error: FileExistsError) -> bool:
    refused: Any = error.__cause__  # botocore's ClientError
    return bool(refused.response.get("ResponseMetadata", {}).get("RetryAttempts"))


@lru_cache(maxsize=4)
def _client(endpoint: str | None, region: str | None) -> tuple[Any, Any]:
    """boto3's client and its exceptions. Only who uses S3 needs boto3."""
    try:
        import boto3
        import botocore.config
        import botocore.exceptions
    except ImportError as error:
        raise StoreUnavailable(
            "BLOB_STORE names a bucket, which needs boto3:"
            " pip install -r requirements-s3.txt"
        ) from error
    config = botocore.config.Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"max_attempts": TRIES, "mode": "standard"},
    )
    try:
        client = boto3.session.Session().client(
            "s3", endpoint_url=endpoint, region_name=region, config=config
        )
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        raise StoreUnavailable(
            f"The client for BLOB_STORE cannot be made ({type(error).__name__}). Check"
            " BLOB_S3_ENDPOINT and BLOB_S3_REGION."
        ) from error
    return client, botocore.exceptions
