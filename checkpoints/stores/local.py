"""Objects as files of a directory: on one machine, or on a volume that all share."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from checkpoints.errors import (
    BadObject,
    MissingObject,
    StoreFull,
    StoreUnavailable,
)
from checkpoints.stores.names import PROBE, check_size, checked, is_name

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_FILE = {errno.ELOOP, errno.ENXIO}  # a link, a socket


class _Taken(FileExistsError):
    """An object of this name is there already."""


class LocalStore:
    """A file per object. Its name appears only once its bytes are on disk."""

    kind = "local"

    def __init__(self, root: Path) -> None:
        self._root = root
        self.where = f"the directory {root} (BLOB_DIR)"

    def __repr__(self) -> str:
        return f"LocalStore({str(self._root)!r})"

    def write(self, name: str, data: bytes) -> None:
        check_size(len(data))
        path = self._path(name)
        part = path.with_name(f"{path.name}.part-{secrets.token_hex(8)}")
        with self._troubles():
            self._make(path.parent)
            try:
                _write_durably(part, data)
                os.link(part, path)  # refuses a name that is taken; a rename would not
            except FileExistsError:
                raise _Taken(f"{name} is in {self.where} already.") from None
            finally:
                with contextlib.suppress(OSError):
                    part.unlink()
            _sync_folder(path.parent)
            if path.read_bytes() != data:
                with contextlib.suppress(OSError):
                    path.unlink()
                raise StoreUnavailable(
                    f"An object read back from {self.where} is not what was written."
                    " Check the disk."
                )

    def read(self, name: str) -> bytes:
        path = self._path(name)
        with self._troubles():
            try:
                return _read(path)
            except FileNotFoundError:
                raise MissingObject(
                    f"The object {name} is not in {self.where}."
                ) from None
            except _NoFile:
                raise BadObject(f"{name} in {self.where} is not a file.") from None

    def delete(self, name: str) -> bool:
        path = self._path(name)
        with self._troubles():
            try:
                path.unlink()
            except FileNotFoundError:
                return False
            _sync_folder(path.parent)
        return True

    def names(
        self, prefix: str = "", *, older_than: timedelta = timedelta()
    ) -> Iterator[str]:
        latest = time.time() - older_than.total_seconds()
        with self._troubles():
            # From the folder that the prefix names: the rest need not be looked at.
            top = self._root / prefix.rpartition("/")[0]
            for folder, folders, files in os.walk(top):
                folders.sort()
                for file in sorted(files):
                    path = Path(folder, file)
                    name = path.relative_to(self._root).as_posix()
                    wanted = name.startswith(prefix) and is_name(name)
                    if wanted and _is_older(path, latest):
                        yield name

    def check(self) -> None:
        name = f"check/{secrets.token_hex(20)}"
        self.write(name, bytes(PROBE))
        self.delete(name)

    def _path(self, name: str) -> Path:
        return self._root / checked(name)

    def _make(self, folder: Path) -> None:
        """The folder, private to its owner; a new one is durable, as its files are."""
        if folder.is_dir():
            return
        if folder != self._root:
            self._make(folder.parent)
        folder.mkdir(mode=0o700, parents=folder == self._root, exist_ok=True)
        _sync_folder(folder.parent)

    @contextlib.contextmanager
    def _troubles(self) -> Iterator[None]:
        """The file system's errors, by what people can do about them."""
        try:
            yield
        except _Taken:
            raise
        except OSError as error:
            if error.errno in _FULL:
                raise StoreFull(
                    f"There is no room left in {self.where} ({error.strerror})."
                    " Free some space there, or give it a larger disk."
                ) from error
            raise StoreUnavailable(
                f"{self.where} cannot be used ({error.strerror}). Check that it is"
                " mounted and that this process may write there."
            ) from error


class _NoFile(Exception):
    """A folder, a link, a pipe or a device, where an object should be."""


def _read(path: Path) -> bytes:
    """The bytes of a plain file. Who may write here could have left what never ends."""
    try:
        # Not waiting for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise _NoFile if error.errno in _NO_FILE else error from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _NoFile
        check_size(found.st_size)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(found.st_size)
    finally:
        os.close(descriptor)


def _write_durably(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
        os.fsync(file)
    finally:
        os.close(file)


def _sync_folder(folder: Path) -> None:
    """Make names in it durable, not only the bytes behind them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_older(path: Path, latest: float) -> bool:
    try:
        return path.stat().st_mtime <= latest
    except FileNotFoundError:
        return False  # deleted meanwhile
