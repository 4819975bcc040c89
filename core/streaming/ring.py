"""A shared-memory ring of samples: one writer, many readers in other processes, no locks, no silence.

Positions are absolute: the first sample ever written is 0, and ``head`` is how many there have been. A reader
asks for samples from a position on and is told exactly how many were overwritten before it came (``lapped``);
samples the controller itself never delivered are counted in ``lost``.

How a torn read is impossible: the writer first publishes how far it is *about to* write (``claimed``), then
copies, then publishes ``head``. A reader copies up to ``head`` and afterwards looks at ``claimed`` again;
whatever the writer may have touched meanwhile is discarded and counted as lapped. Memory fences keep that
order on processors that would reorder it (ARM).

Every writer makes a file of its own and puts it in the place of a dead predecessor's, so a reader that still
has the old file open can drain it to its end, and sees that it is ``superseded``.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import struct
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from core.errors import DynidError
from core.streaming.samples import SampleBlock, sample_dtype

MAGIC = b"DYNRING1"
HEADER_BYTES = 4096
_IDENTITY = struct.Struct("<8sIIQQQ")  # magic, joints, bytes per sample, capacity, epoch, writer's pid
_COUNTERS_AT = 256
# Indices into the counters; 16 words apart, so that each lies on a cache line of its own.
_CLAIMED, _HEAD, _LOST, _LAST_WRITE = 0, 16, 32, 48
_N_COUNTERS = 64

_F_OFD_SETLK = 37  # fcntl.F_OFD_SETLK exists from Python 3.9 on Linux, but not in every build


class RingError(DynidError):
    """A ring is missing, foreign, already written by a live process, or asked for what it cannot hold."""

    code = "ring-invalid"


class RingRead(NamedTuple):
    """``samples`` (m,), m may be 0; read on at ``next_position``; ``lapped`` samples came too late."""

    samples: SampleBlock
    next_position: int
    lapped: int


def _fence_code(typing_context: Any) -> Any:

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


_fence: Any = intrinsic(_fence_code)
"""Keep loads and stores on their side of this point, for the compiler and for the processor."""


@njit(cache=True, nogil=True)
def _write(
    counters: NDArray[np.int64],
    slots: NDArray[np.uint64],
    block: NDArray[np.uint64],
    lost: NDArray[np.uint32],
    now: int,
) -> int:
    """Copy ``block`` (m, words) behind the head, count what was lost before it, publish; return the head."""
    capacity = slots.shape[0]
    head = counters[_HEAD]
    if block.shape[0] == 0:
        return int(head)
    counters[_CLAIMED] = head + block.shape[0]
    _fence()
    missing = 0
    slot = head % capacity
    for row in range(block.shape[0]):
        for word in range(block.shape[1]):
            slots[slot, word] = block[row, word]
        missing += lost[row]
        slot += 1
        if slot == capacity:
            slot = 0
    counters[_LOST] += missing
    counters[_LAST_WRITE] = now
    _fence()
    counters[_HEAD] = head + block.shape[0]
    return int(head + block.shape[0])


@njit(cache=True, nogil=True)
def _read(counters: NDArray[np.int64], slots: NDArray[np.uint64], start: int, out: NDArray[np.uint64]) -> int:
    """Copy ``out.shape[0]`` samples from ``start`` on; return how many of the first ones may be torn."""
    _fence()  # the head that the caller has read is older than every slot read here
    capacity = slots.shape[0]
    slot = start % capacity
    for row in range(out.shape[0]):
        for word in range(out.shape[1]):
            out[row, word] = slots[slot, word]
        slot += 1
        if slot == capacity:
            slot = 0
    _fence()
    return int(min(max(counters[_CLAIMED] - capacity - start, 0), out.shape[0]))


class RingWriter:
    """The one writer of a ring; see `create`."""

    def __init__(self, path: Path, descriptor: int, n_joints: int, capacity: int, epoch: int) -> None:
        self.path = path
        self.n_joints = n_joints
        self.capacity = capacity
        self.epoch = epoch
        self._dtype = sample_dtype(n_joints)
        self._words = self._dtype.itemsize // 8
        self._descriptor = descriptor  # holds the lock
        self._memory = mmap.mmap(descriptor, _file_size(capacity, self._dtype))
        self._counters = np.frombuffer(self._memory, np.int64, _N_COUNTERS, _COUNTERS_AT)
        self._slots = _slots(self._memory, capacity, self._words)
        self._closed = False
        self.push(np.empty(0, self._dtype))  # compiles, or loads, the kernel before samples wait for it

    @classmethod
    def create(cls, path: Path, n_joints: int, capacity: int) -> Self:
        """Make a ring of ``capacity`` samples at ``path``, in the place of a dead writer's.

        Raises
        ------
        RingError
            A live process writes there, something else lies there, or there is no room for it.
        """
        if n_joints < 1 or capacity < 1:
            raise RingError(f"a ring needs joints and capacity, got {n_joints} joints x {capacity} samples")
        epoch = secrets.randbits(53)  # survives JSON readers that know only doubles
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        draft = Path(name)
        try:
            _lock(descriptor, path)
            dtype = sample_dtype(n_joints)
            try:
                os.posix_fallocate(descriptor, 0, _file_size(capacity, dtype))
            except OSError as error:
                size = _file_size(capacity, dtype) / 1e6
                raise RingError(
                    f"{path}: no room for a ring of {capacity} samples ({size:.1f} MB): {error.strerror}; "
                    "lower ring_seconds or free shared memory",
                    code="ring-no-room",
                ) from error
            identity = _IDENTITY.pack(MAGIC, n_joints, dtype.itemsize, capacity, epoch, os.getpid())
            os.pwrite(descriptor, identity, 0)
            _take_place(draft, path)
        except BaseException:
            os.close(descriptor)
            draft.unlink(missing_ok=True)
            raise
        return cls(path, descriptor, n_joints, capacity, epoch)

    @property
    def head(self) -> int:
        """Number of samples ever written."""
        return int(self._counters[_HEAD])

    @property
    def lost(self) -> int:
        """Controller samples lost so far: the sum of the samples' ``lost``."""
        return int(self._counters[_LOST])

    def push(self, block: SampleBlock) -> int:
        """Append ``block`` (m,), m <= capacity, and return the new head.

        Raises
        ------
        RingError
            The block has another layout, or is longer than the ring.
        """
        if block.dtype != self._dtype:
            raise RingError(f"{self.path}: these samples are not laid out for {self.n_joints} joints")
        if block.size > self.capacity:
            raise RingError(f"{self.path}: {block.size} samples at once do not fit into {self.capacity}")
        block = np.ascontiguousarray(block)
        words = block.view(np.uint64).reshape(block.size, self._words)
        lost = np.ascontiguousarray(block["lost"])  # or one sample would be another type than many, to be compiled
        return int(_write(self._counters, self._slots, words, lost, time.monotonic_ns()))

    def close(self) -> None:
        """Let go of the ring; the file stays for its readers until the next writer replaces it."""
        if self._closed:
            return
        self._closed = True
        del self._counters, self._slots  # views of the memory must go before the memory
        self._memory.close()
        os.close(self._descriptor)

    def unlink(self) -> None:
        """Remove the file; readers that have it open keep what is in it."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RingReader:
    """A reader of a ring, in any process; see `open`. It never disturbs the writer."""

    def __init__(self, path: Path, memory: mmap.mmap, inode: int) -> None:
        identity: tuple[bytes, int, int, int, int, int] = _IDENTITY.unpack_from(memory)
        _, self.n_joints, itemsize, self.capacity, self.epoch, self.writer_pid = identity
        self.path = path
        self._inode = inode
        self._dtype = sample_dtype(self.n_joints)
        self._words = itemsize // 8
        self._memory = memory
        self._counters = np.frombuffer(memory, np.int64, _N_COUNTERS, _COUNTERS_AT)
        self._slots = _slots(memory, self.capacity, self._words)
        self._closed = False

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the ring at ``path``.

        Raises
        ------
        RingError
            There is none, or what is there is not a ring of this version.
        """
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise RingError(f"{path}: there is no ring (is the device host running?)") from None
        try:
            status = os.fstat(descriptor)
            identity = os.pread(descriptor, _IDENTITY.size, 0)
            problem = _identity_problem(identity, status.st_size)
            if problem:
                raise RingError(f"{path}: {problem}")
            memory = mmap.mmap(descriptor, status.st_size, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        return cls(path, memory, status.st_ino)

    @property
    def head(self) -> int:
        """Number of samples ever written: the position of the next one."""
        return int(self._counters[_HEAD])

    @property
    def tail(self) -> int:
        """The oldest position that can still be read."""
        return max(0, int(self._counters[_CLAIMED]) - self.capacity)

    @property
    def lost(self) -> int:
        """Controller samples lost so far."""
        return int(self._counters[_LOST])

    @property
    def last_write_ns(self) -> int:
        """CLOCK_MONOTONIC of the last write, ns; 0 before the first."""
        return int(self._counters[_LAST_WRITE])

    @property
    def superseded(self) -> bool:
        """True when ``path`` no longer names this ring: its writer is gone, and a new one may be there."""
        try:
            return self.path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True

    def read(self, position: int, limit: int) -> RingRead:
        """Copy up to ``limit`` samples from ``position`` on.

        Returns
        -------
        RingRead
            ``next_position - position == lapped + len(samples)``, always.

        Raises
        ------
        RingError
            ``position`` is ahead of the head: it belongs to another ring.
        """
        head = self.head
        if not 0 <= position <= head:
            raise RingError(
                f"{self.path}: position {position} is not within 0..{head}; positions start again with every new epoch",
                code="ring-position",
                position=position,
                head=head,
            )
        start = max(position, self.tail)  # may pass the head just read when the writer laps us right here
        count = max(0, min(limit, head - start))
        samples = np.empty(count, self._dtype)
        words = samples.view(np.uint64).reshape(count, self._words)
        torn = int(_read(self._counters, self._slots, start, words))
        return RingRead(samples[torn:], start + count, start - position + torn)

    def latest(self, count: int) -> SampleBlock:
        """Return the newest ``count`` samples, or all there are if fewer; oldest first."""
        head = self.head
        return self.read(max(self.tail, head - count, 0), count).samples

    def close(self) -> None:
        """Let go of the memory; idempotent."""
        if self._closed:
            return
        self._closed = True
        del self._counters, self._slots
        self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _file_size(capacity: int, dtype: np.dtype[Any]) -> int:
    return HEADER_BYTES + capacity * dtype.itemsize


def _slots(memory: mmap.mmap, capacity: int, words: int) -> NDArray[np.uint64]:
    return np.frombuffer(memory, np.uint64, capacity * words, HEADER_BYTES).reshape(capacity, words)


def _identity_problem(identity: bytes, size: int) -> str | None:
    if len(identity) < _IDENTITY.size or not identity.startswith(MAGIC[:-1]):
        return "this is not a ring of samples"
    magic, n_joints, itemsize, capacity, _, _ = _IDENTITY.unpack(identity)
    if magic != MAGIC:
        return f"this ring has layout {magic[-1:]!r}, this program reads {MAGIC[-1:]!r}"
    dtype = sample_dtype(n_joints)
    if itemsize != dtype.itemsize or size != _file_size(capacity, dtype):
        return "the ring's size contradicts its header"
    return None


def _lock(descriptor: int, path: Path) -> None:
    """Take the file's writer lock; the kernel releases it when the process dies, however it dies."""
    lock = struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        fcntl.fcntl(descriptor, _F_OFD_SETLK, lock)
    except OSError:
        raise RingError(f"{path}: another process is writing this ring", code="ring-in-use") from None


def _take_place(draft: Path, path: Path) -> None:
    """Put the locked ``draft`` at ``path``; only a ring whose writer is dead may be replaced."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    else:
        draft.unlink()
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not os.pread(descriptor, len(MAGIC), 0).startswith(MAGIC[:-1]):
            raise RingError(f"{path}: something that is not a ring lies there; remove it first")
        _lock(descriptor, path)
        if path.stat().st_ino != status.st_ino:
            raise RingError(f"{path}: another process has just begun to write here", code="ring-in-use")
        draft.rename(path)
    finally:
        os.close(descriptor)
