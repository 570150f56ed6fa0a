"""Every kind of store, for tests: a directory of the test's own, and a local S3 server."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator

import pytest

from checkpoints import stores


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server in this process (moto's)."""
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    running = server.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def use_s3(s3_server, settings, monkeypatch) -> Iterator[None]:
    """New objects go to a bucket of the local S3 server."""
    import boto3

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    settings.BLOB_STORE = ("holdpoint", "objects/")
    settings.BLOB_S3_ENDPOINT = s3_server
    settings.BLOB_S3_REGION = "us-east-1"
    client = boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1")
    client.create_bucket(Bucket="holdpoint")
    yield
    for found in client.list_objects_v2(Bucket="holdpoint").get("Contents", ()):
        client.delete_object(Bucket="holdpoint", Key=found["Key"])
    client.delete_bucket(Bucket="holdpoint")


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest) -> stores.Store:
    """The configured store, of each kind."""
    if request.param == "s3":
        request.getfixturevalue("use_s3")
    return stores.configured()


@pytest.fixture
def small_files(monkeypatch) -> Iterator[None]:
    """No file of this process may grow beyond 64 KB, as if the disk were full."""
    # What it imports would be cut off where it is compiled, for all that come after.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
