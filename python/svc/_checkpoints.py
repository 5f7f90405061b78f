"""Checkpoints of training scripts: their directory, the rules of completeness, and atomic writes.

C1. Only complete checkpoints are returned: announced by ``checkpoint``, finished by the rules of a known framework,
    or a single file that is complete as far as its format can tell. Files with temporary names never count.
C2. An announcement is valid for the state at that time: a file that was overwritten since, alone or in a folder, must be complete by
    its format.
C3. A file inside a directory that is saved as one (weights with the optimizer's state) is not a checkpoint by
    itself.
C4. ``atomic_save`` leaves either the former checkpoint or the new one under the name, whenever the process or machine dies.
C5. The search is bounded in depth, entries and bytes read: the directory belongs to the script.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from svc._script import _LINE_BYTES_MAX, _emit, _quote, _step_text, _this, _warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import IO, Any, Union

    StrPath = Union[str, "os.PathLike[str]"]

_INDEX = ".svc-checkpoints.jsonl"
_INDEX_BYTES_MAX = 1 << 20
_LOCAL_DIR = "checkpoints-local"
# The control plane recognises folders made by svc by this file, and never takes them for code
# (src/files/listing/protections.ts).
_MADE = ".svc-made"
_PATH_UNITS_MAX = 4096
# A file that is written after an announcement must look newer than it: kernels date files in steps of up to 10 ms.
_TICK_SECONDS = 0.015
_DEPTH_MAX = 8
_ENTRIES_MAX = 20_000
_INCOMPLETE = "checkpoint-is-incomplete.txt"
# Frameworks mark a complete directory with these files: torch DCP and Megatron, the Trainer of Hugging Face, Orbax,
# SavedModel.
_ORBAX = "_CHECKPOINT_METADATA"
# The Trainer also writes its file at the end, into the directory of all of its checkpoints.
_TRAINER = "trainer_state.json"
_LAST_WRITTEN = (".metadata", _TRAINER, _ORBAX, "saved_model.pb")
# TensorFlow replaces this file after each save: it names the last prefix of those in its directory.
_TF_STATE = "checkpoint"
# Files of DeepSpeed and Megatron that name the last complete checkpoint next to them.
_TRACKERS = ("latest", "latest_checkpointed_iteration.txt")
_SMALL_TEXT_MAX = 1 << 20
_SHARD_INDEX_MAX = 64 << 20
_SINGLE = (".ckpt", ".pt", ".pth", ".keras", ".safetensors", ".npz", ".h5", ".hdf5")
# A directory with one of these files is a checkpoint of many files (C3) ...
_UNIT_NAMES = frozenset(
    ["training_args.bin", "trainer_state.json", "optimizer.pt", "optimizer.bin", "scheduler.pt", "scheduler.bin", "scaler.pt"]
)
_CONFIG_NAMES = frozenset(("config.json", "adapter_config.json"))  # in the checkpoint directory itself, these are a script's own notes
_UNIT_ENDINGS = (".distcp", ".index.json", "_states.pt")
# Any other pickled file may be the script's own.
_UNIT_PICKLES = ("optimizer", "scheduler", "scaler", "rng_state", "random_states", "sampler", "custom_checkpoint_")
# ... whose members begin with these, and whose directories have these names.
_MEMBER_STARTS = (
    "model.", "model-", "model_optim_rng", "distrib_optim", "pytorch_model", "adapter_model", "optimizer", "scheduler", "scaler",
    "rng_state", "random_states", "sampler", "training_args", "mp_rank_", "zero_pp_rank_", "bf16_zero_pp_rank_", "custom_checkpoint_",
)  # fmt: skip
_UNIT_DIRS = ("checkpoint-", "checkpoint_", "global_step", "mp_rank_")


def checkpoint_dir() -> str:
    """The directory whose files are downloaded during the run and at its end; it is created.

    Equal to ``SVC_CHECKPOINT_DIR``. Outside a job it is ``checkpoints-local`` in the current directory, as an
    absolute path, so that a script behaves the same when you try it by hand. Raises ``OSError`` if it cannot be
    created.
    """
    path = os.environ.get("SVC_CHECKPOINT_DIR")
    if not path:
        path = os.path.abspath(_LOCAL_DIR)
        if not os.path.isdir(path):
            _warn("local", f"svc: not in a job, so checkpoints go to {path}")
        os.makedirs(path, exist_ok=True)
        _mark_as_made(path)
        return path
    os.makedirs(path, exist_ok=True)
    return path


def _mark_as_made(folder: str) -> None:
    mark = os.path.join(folder, _MADE)
    try:
        if not os.path.exists(mark):
            with open(mark, "w") as file:
                file.write("svc created this folder for a script that was started by hand. It is never sent as part of a run's code.\n")
    except OSError:  # the folder is useful without it
        pass


def _inside(path: StrPath) -> tuple[str, str | None]:
    """The full path (relative ones are taken from the checkpoint directory), and its name there or None when it is
    outside."""
    root = checkpoint_dir()
    full = os.path.normpath(os.path.join(root, os.fspath(path)))
    name = os.path.relpath(os.path.realpath(full), os.path.realpath(root))
    outside = name in (os.pardir, os.curdir) or name.startswith(os.pardir + os.sep) or os.path.isabs(name)
    return full, None if outside else name.replace(os.sep, "/")


def checkpoint(path: StrPath, step: int | None = None) -> None:
    """Announce that the checkpoint at ``path`` (a file or a directory) is complete: it is downloaded at once, and a
    run may resume from it. It is about the files as they are at the call, which takes 15 ms.

    :param path: inside ``checkpoint_dir()``; a relative path is taken from there.
    :param step: the training step that it belongs to.

    Never raises; a path that cannot be announced (missing, outside, a temporary name) is reported once on stderr.
    """
    try:
        full, name = _inside(path)
        if name is None:
            _warn("outside", f"svc.checkpoint: {full} is outside {checkpoint_dir()}, so svc does not save it")
            return
        if not os.path.exists(full):
            _warn("missing", f"svc.checkpoint: {full} does not exist")
            return
        if any(_is_temporary(part) for part in name.split("/")) or _is_in_tensorflow_temp(full, name):
            _warn("temporary", f"svc.checkpoint: {full} has a temporary name, which is never saved")
            return
        if len(name) > _PATH_UNITS_MAX or any(ord(c) < 32 or ord(c) == 127 for c in name):
            _warn("name", f"svc.checkpoint: {name[:200]!r} is not reported: its name is too long or has control characters")
            return
        state = _this()
        at = "null" if step is None else _step_text(state, step)
        quoted = _quote(name.encode("utf-8", "replace").decode("utf-8"))
        try:
            _remember(full, quoted, at)
        except OSError as error:  # its disk may be full; the announcement needs none
            _warn("index", f"svc.checkpoint: {full} is announced, but a later process may not find it: {error!r}")
        if state.head:
            line = '%s{"k":"c","n":%d,"s":%s,"t":%.3f,"r":%d,"path":%s}\n' % (
                state.head, state.next_n(), at, time.time(), state.rank, quoted,
            )  # fmt: skip
            if len(line) >= _LINE_BYTES_MAX:
                _warn("long path", f"svc.checkpoint: the path {full} is too long to announce")
            else:
                _emit(state, line, keep=True)
        time.sleep(_TICK_SECONDS)
    except Exception as error:  # training comes first
        _warn("checkpoint", f"svc.checkpoint: the call was skipped: {error!r}")


def _remember(full: str, quoted: str, at: str) -> None:
    """A line in the index, for a later process that resumes. Appended in one write, so that processes do not lose
    each other's lines."""
    index = os.path.join(checkpoint_dir(), _INDEX)
    seen = os.stat(full)
    size, mtime = (-1, -1) if os.path.isdir(full) else (seen.st_size, seen.st_mtime_ns)
    line = '{"path":%s,"step":%s,"t":%.6f,"size":%d,"mtime_ns":%d}\n' % (quoted, at, time.time(), size, mtime)
    try:
        if os.stat(index).st_size > _INDEX_BYTES_MAX:
            os.replace(index, index + ".1")
    except OSError:  # none yet, or another process was first
        pass
    fd = os.open(index, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        os.write(fd, line.encode("ascii"))
    finally:
        os.close(fd)


def latest_checkpoint() -> str | None:
    """The full path of the newest complete checkpoint (a file or a directory), or None when the run starts from the
    beginning.

    It is searched in ``checkpoint_dir()``. Complete are: paths that ``checkpoint`` or ``atomic_save`` announced;
    the checkpoint of ``resume_from`` (``SVC_RESUME_FROM``); directories with ``.metadata``, ``trainer_state.json``,
    ``_CHECKPOINT_METADATA`` (Orbax) or ``saved_model.pb``, with TensorFlow's ``checkpoint`` and the files that it
    names, or that a ``latest`` (DeepSpeed) or ``latest_checkpointed_iteration.txt`` (Megatron) next to them names;
    with every shard that an index in them names, and without ``checkpoint-is-incomplete.txt``; and single files
    (``.ckpt``, ``.pt``, ``.pth``, ``.keras``, ``.safetensors``, ``.npz``, ``.h5``, ``.hdf5``) that are complete.
    Files and directories with temporary names (``tmp-…``, ``….tmp``, ``….partial``) never count.
    """
    found = complete_checkpoints()
    return max(found, key=lambda path: (found[path], path), default=None)


def complete_checkpoints() -> dict[str, float]:
    """The full paths of all complete checkpoints, with their times."""
    root = checkpoint_dir()
    found = _announced(root)
    resumed = os.environ.get("SVC_RESUME_FROM")
    if resumed:
        full = os.path.normpath(os.path.join(root, resumed))
        if full not in found:
            if _whole(full):
                found[full] = _changed_at(full)
            else:
                why = "is truncated, or lacks files" if os.path.lexists(full) else "does not exist"
                _warn("resume", f"svc: SVC_RESUME_FROM is set to {full}, which {why}: svc.latest_checkpoint does not return it")
    _Search(found).folder(root, 0, True)
    return found


def _announced(root: str) -> dict[str, float]:
    """Announced checkpoints that are unchanged since (C2), with the time of the announcement."""
    import json

    latest: dict[str, float] = {}
    for name in (_INDEX + ".1", _INDEX):
        try:
            with open(os.path.join(root, name), encoding="ascii", errors="replace") as file:
                lines = file.readlines(4 * _INDEX_BYTES_MAX)
        except OSError:
            continue
        for line in lines:
            try:  # a line that a crash cut short, perhaps with the next one on the same line; or another program's
                said = json.loads(line[line.rfind('{"path":') :])
                full, inside = _inside(said["path"])
                if inside is None:
                    continue
                latest.pop(full, None)
                at = float(said["t"])
                if _unchanged(full, said["size"], said["mtime_ns"], at):
                    latest[full] = at
                elif _whole(full):  # a note that is added to a folder, such as a score, makes it no newer
                    latest[full] = at if os.path.isdir(full) else max(at, _changed_at(full))
            except (OSError, ValueError, KeyError, TypeError):
                continue
    return latest


def _unchanged(path: str, size: int, mtime_ns: int, at: float) -> bool:
    """Whether an announced file or folder is as it was at that time. In a folder, a file that was overwritten is newer, and a removed one
    leaves the folder newer."""
    if size < 0:
        return os.path.isdir(path) and _changed_at(path) <= at and not os.path.exists(os.path.join(path, _INCOMPLETE))
    seen = os.stat(path)
    return (seen.st_size, seen.st_mtime_ns) == (size, mtime_ns)


class _Search:
    """A bounded walk that adds complete checkpoints to ``found``."""

    def __init__(self, found: dict[str, float]) -> None:
        self._found = found
        self._left = _ENTRIES_MAX

    def folder(self, path: str, depth: int, is_root: bool) -> None:
        try:
            with os.scandir(path) as entries:
                listed = [entry for entry, _ in zip(entries, range(self._left))]
        except OSError:
            return
        self._left -= len(listed)
        names = {entry.name for entry in listed}
        if _INCOMPLETE in names:
            return
        tracked = {name for name in map(_tracked, [os.path.join(path, n) for n in _TRACKERS if n in names]) if name}
        unit = any(map(_belongs_to_unit, names))
        unit = unit or (not is_root and (os.path.basename(path).startswith(_UNIT_DIRS) or not names.isdisjoint(_CONFIG_NAMES)))
        for entry in listed:
            if _is_temporary(entry.name) or entry.path in self._found or _is_tensorflow_temp(entry.path):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name in tracked or _looks_saved_as_one(entry.path):
                        if _whole(entry.path):
                            self._found[entry.path] = _changed_at(entry.path)
                    elif depth < _DEPTH_MAX and self._left > 0:
                        self.folder(entry.path, depth + 1, False)
                elif _is_single(entry, unit) and _whole_file(entry.path):
                    self._found[entry.path] = _saved_at(entry.stat())
            except OSError:  # rotated away meanwhile
                continue


def _belongs_to_unit(name: str) -> bool:
    return name in _UNIT_NAMES or name.endswith(_UNIT_ENDINGS) or (name.endswith(".pkl") and name.startswith(_UNIT_PICKLES))


def _is_single(entry: os.DirEntry[str], unit: bool) -> bool:
    return entry.name.endswith(_SINGLE) and entry.is_file() and not (unit and entry.name.startswith(_MEMBER_STARTS))


def _is_temporary(name: str) -> bool:
    # Includes those of Orbax (300.orbax-checkpoint-tmp-170000) and of TensorFlow (ckpt-1.tempstate123).
    return (
        name.startswith(("tmp-", ".svc-"))
        or name.endswith((".tmp", ".partial"))
        or ".orbax-checkpoint-tmp" in name
        or name.rstrip("0123456789").endswith(".tempstate")
    )


def _is_tensorflow_temp(path: str) -> bool:
    """Whether the folder holds shards that TensorFlow has not moved to their place (ckpt-1_temp, in version 1 ckpt-1_temp_0a1b...).
    Any other folder may have such a name: high_temp."""
    name = os.path.basename(path)
    if "_temp" not in name:
        return False
    import re

    if re.search("_temp(_[0-9a-f]{32})?$", name) is None:
        return False
    try:
        with os.scandir(path) as entries:
            return any(re.match("part-[0-9]{5}-of-[0-9]{5}", entry.name) for entry in entries)
    except OSError:
        return False


def _is_in_tensorflow_temp(full: str, name: str) -> bool:
    """Of a path with this name in the checkpoint directory."""
    for _ in name.split("/"):
        if _is_tensorflow_temp(full):
            return True
        full = os.path.dirname(full)
    return False


def _looks_saved_as_one(path: str) -> bool:
    signs = [sign for sign in _LAST_WRITTEN if os.path.exists(os.path.join(path, sign))]
    return (bool(signs) and not (signs == [_TRAINER] and _holds_trainers(path, _DEPTH_MAX))) or _is_tensorflow(path)


def _holds_trainers(path: str, depth: int) -> bool:
    """Whether a checkpoint of the Trainer is somewhere below this directory."""
    with os.scandir(path) as entries:
        folders = [entry.path for entry, _ in zip(entries, range(_ENTRIES_MAX)) if entry.is_dir(follow_symlinks=False)]
    return any(os.path.exists(os.path.join(each, _TRAINER)) or (depth > 1 and _holds_trainers(each, depth - 1)) for each in folders)


def _is_tensorflow(path: str) -> bool:
    if not os.path.isfile(os.path.join(path, _TF_STATE)):
        return False
    with os.scandir(path) as entries:
        return any(entry.name.endswith(".index") for entry in entries)


def _has_tensorflow_files(path: str, names: set[str]) -> bool:
    """Whether the prefix in TensorFlow's state file exists, with its index and every shard."""
    import re

    found = re.search(r'^model_checkpoint_path: "([^"]+)"', _text_of(os.path.join(path, _TF_STATE)), re.MULTILINE)
    if found is None:
        return False
    last = found.group(1).rsplit("/", 1)[-1]
    shards = [name for name in names if name.startswith(last + ".data-")]
    count = re.search("-of-([0-9]{5})$", shards[0]) if shards else None
    return last + ".index" in names and count is not None and len(shards) == int(count.group(1))


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_SMALL_TEXT_MAX + 1)
    except OSError:
        return ""
    return text if len(text) <= _SMALL_TEXT_MAX else ""


def _tracked(tracker: str) -> str | None:
    """The directory next to the tracker file that it names."""
    text = _text_of(tracker).strip()
    if os.path.basename(tracker) == "latest":
        return text if 0 < len(text) <= 128 and "/" not in text and text.strip(".") else None
    if text.isdigit() and len(text) < 10:
        return "iter_" + text.zfill(7)
    return text if text == "release" else None


def _whole(path: str) -> bool:
    """Whether a file, or every file of a directory, is complete as far as that can be seen."""
    if _is_temporary(os.path.basename(path)) or _is_tensorflow_temp(path):
        return False
    if not os.path.isdir(path):
        return os.path.isfile(path) and _whole_file(path)
    if os.path.exists(os.path.join(path, _INCOMPLETE)):
        return False
    for sign in _LAST_WRITTEN:
        full = os.path.join(path, sign)
        if os.path.exists(full) and os.path.getsize(full) == 0:
            return False
    with os.scandir(path) as entries:
        listed = list(entries)
    names = {entry.name for entry in listed}
    # Orbax renames each item of a checkpoint into its place: before the first item there is only the mark.
    if _ORBAX in names and not any(name != _ORBAX and not _is_temporary(name) for name in names):
        return False
    if _is_tensorflow(path) and not _has_tensorflow_files(path, names):
        return False
    if not all(_has_shards(entry.path, names) for entry in listed if entry.name.endswith(".index.json")):
        return False
    return all(_whole_file(entry.path) for entry in listed if entry.name.endswith(_SINGLE) and entry.is_file())


def _has_shards(index: str, names: set[str]) -> bool:
    """Whether every shard that an index of weights names exists. A file that is not such an index names none."""
    import json

    try:
        if os.path.getsize(index) > _SHARD_INDEX_MAX:
            return True
        with open(index, encoding="utf-8") as file:
            return all(shard in names for shard in json.load(file)["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return True


def _whole_file(path: str) -> bool:
    """False for a file that a crash cut short, if its format shows that: by the end of a ZIP or the lengths of its
    header."""
    try:
        with open(path, "rb") as file:
            start = file.read(8)
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                return False
            if start.startswith(b"PK"):  # torch.save, .keras, .npz: the list of contents is at the end
                file.seek(max(0, size - 65_558))
                return b"PK\x05\x06" in file.read(65_558)
            if path.endswith(".safetensors"):
                import json

                length = int.from_bytes(start, "little")
                if len(start) < 8 or length > min(size - 8, 100_000_000):
                    return False
                tensors = json.loads(file.read(length))
                ends = [value["data_offsets"][1] for name, value in tensors.items() if name != "__metadata__"]
                return size == 8 + length + max(ends, default=0)
            if path.endswith((".h5", ".hdf5")):
                file.seek(0)
                return size >= _end_of_hdf5(file.read(48))
            return not path.endswith((".keras", ".npz"))  # these are ZIPs; old formats of torch.save cannot show it
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return False


def _end_of_hdf5(start: bytes) -> float:
    """The end of an HDF5 file by its superblock; infinity if it has none."""
    if not start.startswith(b"\x89HDF\r\n\x1a\n") or len(start) < 48:
        return float("inf")
    version = start[8]
    if start[13 if version < 2 else 9] != 8:
        return 0
    at = {0: 40, 1: 44}.get(version, 28)
    return int.from_bytes(start[at : at + 8], "little")


def _changed_at(path: str) -> float:
    newest = _saved_at(os.stat(path))
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            newest = max([newest] + [_saved_at(entry.stat(follow_symlinks=False)) for entry in entries])
    return newest


def _saved_at(seen: os.stat_result) -> float:
    """By this machine's clock: a file of the checkpoint that the run resumed from has the time of another, and arrived here later."""
    return min(seen.st_mtime, seen.st_ctime)


class atomic_save:  # noqa: N801  used as a function is
    """Save a checkpoint atomically, and announce it.

    ::

        with svc.atomic_save("epoch-3.pt", step=3) as path:  # a path to write a file, or make a directory, at
            torch.save(model.state_dict(), path)
        with svc.atomic_save("epoch-3.json", step=3, mode="w") as file:  # an open file
            json.dump(weights, file)
        with svc.atomic_save("epoch-3", step=3, directory=True) as folder:  # an existing directory
            model.save_pretrained(folder)

    The body writes under a temporary name with the same ending in the same folder. When it succeeds, everything is
    flushed to disk, renamed to its real name and announced by ``checkpoint``. When it raises, its files are removed
    and the former checkpoint stays. A relative name is taken from ``checkpoint_dir()``; its folders are made.
    Raises ``OSError`` if the disk refuses a write, ``FileNotFoundError`` when the body wrote nothing.
    """

    def __init__(self, path: StrPath, step: int | None = None, *, mode: str | None = None, directory: bool = False) -> None:
        if mode is not None and (directory or not set("wx") & set(mode)):
            raise ValueError("atomic_save: mode must be 'w' or 'wb' and cannot be combined with a directory")
        self._target, self._name = _inside(path)
        self._step = step
        self._mode = mode
        self._directory = directory
        self._file: IO[Any] | None = None
        self._folder, name = os.path.split(self._target)
        self._temporary = os.path.join(self._folder, f"tmp-{os.getpid()}-{time.monotonic_ns()}-{name}")

    def __enter__(self) -> Any:  # a path, or with `mode` an open file
        os.makedirs(self._folder, exist_ok=True)
        if self._directory:
            os.mkdir(self._temporary)
        if self._mode is None:
            return self._temporary
        self._file = open(self._temporary, self._mode, encoding=None if "b" in self._mode else "utf-8")
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self._file is not None:
                self._file.close()
            if kind is not None:
                return
            if not os.path.exists(self._temporary):
                raise FileNotFoundError(2, "atomic_save: the block wrote nothing to", self._temporary)
            _sync_tree(self._temporary)
            self._put()
            _sync_path(self._folder)
        finally:
            _remove(self._temporary)
        if self._name is not None:
            checkpoint(self._target, self._step)

    def _put(self) -> None:
        if not os.path.isdir(self._temporary) or not os.path.isdir(self._target):
            os.replace(self._temporary, self._target)
            return
        # A directory cannot replace one that holds files. If the system can swap the two names atomically, a
        # complete checkpoint exists at every moment (C4); elsewhere the old one has another name for a moment.
        if _swap(self._temporary, self._target):
            return
        old = self._temporary + ".old.tmp"
        os.replace(self._target, old)
        try:
            os.replace(self._temporary, self._target)
        except OSError:
            os.replace(old, self._target)
            raise
        _remove(old)


def _swap(one: str, other: str) -> bool:
    """Exchanges two names atomically. False if the system or the file system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        call = ctypes.CDLL(None, use_errno=True).renameat2
        here = -100  # AT_FDCWD; the paths are absolute
        return bool(call(here, os.fsencode(one), here, os.fsencode(other), 2) == 0)  # RENAME_EXCHANGE
    except (ImportError, AttributeError, OSError):
        return False


def _sync_path(path: str) -> None:
    try:
        # Windows flushes only what is open for writing.
        fd = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    except OSError:  # a folder cannot be opened everywhere
        if os.path.isdir(path):
            return
        raise
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_tree(path: str) -> None:
    if os.path.isdir(path):
        for folder, _, names in os.walk(path, topdown=False):
            for name in names:
                file = os.path.join(folder, name)
                # A symlink may lead nowhere, and a pipe would wait for a writer: they have no content of their own.
                if stat.S_ISREG(os.lstat(file).st_mode):
                    _sync_path(file)
            _sync_path(folder)
    elif os.path.isfile(path):
        _sync_path(path)


def _remove(path: str) -> None:
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)
    except OSError:  # leftovers have a temporary name: nothing takes them for a checkpoint
        pass
