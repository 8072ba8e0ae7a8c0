"""The file of a backup: whatever is wrong with it is said before anything is restored from it."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from beamwright.adapters.backup_file import MANIFEST, BackupFileError, check_all, check_chain, opened_backup
from beamwright.adapters.postgres.migrate import UnfinishedRestoreError, migrate
from beamwright.maintenance import NotPossibleError
from tests.faults.form import record, seeded, sized
from tests.faults.restoring import brought_back, log, run, saved, whole
from tests.live import Cluster

FLIPS = sized(short=150, long=5000)
# The tables that came after the first schema that can be restored.
SINCE = {
    "0004": set[str](),
    "0005": {"federation_outbox"},
    "0006": {"entries_procedure_activities", "entries_procedure_outcomes"},
}


@pytest.fixture(scope="module")
def backup(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("backup") / "good.backup"
    saved(cluster.database(), path)
    return path


def test_damaged_backup_is_refused_or_nothing_of_its_content_is_changed(backup: Path, tmp_path: Path) -> None:
    seed, dice = seeded()
    good, bad = backup.read_bytes(), tmp_path / "damaged.backup"
    content, refused = members(backup), 0
    for _ in range(FLIPS):
        place = dice.randrange(len(good))
        bad.write_bytes(good[:place] + bytes([good[place] ^ 1 << dice.randrange(8)]) + good[place + 1 :])
        try:
            checked(bad)
        except BackupFileError:
            refused += 1
        else:
            assert members(bad) == content, f"byte {place}, seed {seed}"
    # One byte in twenty is of no account: a date of a member, a header that nobody reads.
    assert refused > FLIPS * 0.8
    for length in [0, 1, 100, len(good) // 2, len(good) - 1]:
        bad.write_bytes(good[:length])
        with pytest.raises(BackupFileError):
            checked(bad)
    record("damaged backups", seed=seed, flipped=FLIPS, refused=refused)


def checked(path: Path) -> None:
    with opened_backup(path) as backup:
        check_chain([backup])
        check_all([backup], lambda done, total: None)


def members(path: Path) -> dict[str, bytes]:
    with opened_backup(path) as backup:
        parts = {part.name: b"".join(backup.chunks(part.name)) for part in backup.manifest.parts}
        return parts | {MANIFEST: msgspec.json.encode(backup.manifest)}


def rewritten(backup: Path, path: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """The backup with other members, in a whole and correct zip."""
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return path


def test_member_of_another_backup_is_refused(backup: Path, tmp_path: Path) -> None:
    def change(name: str, content: bytes) -> bytes:
        return content + content[: content.index(b"\n") + 1] if name == "claims.copy" else content

    with pytest.raises(BackupFileError, match="claims is not what was written"):
        checked(rewritten(backup, tmp_path / "mixed.backup", change))


def test_restore_that_fails_in_the_middle_leaves_nothing_but_a_mark(
    cluster: Cluster, backup: Path, tmp_path: Path
) -> None:
    def change(name: str, content: bytes) -> bytes:
        if name != MANIFEST:
            return content
        manifest = msgspec.json.decode(content)
        manifest["parts"][-1]["rows"] += 1
        return msgspec.json.encode(manifest)

    dsn = cluster.empty_database()
    with pytest.raises(NotPossibleError, match="should have"):
        brought_back(dsn, rewritten(backup, tmp_path / "short.backup", change))
    assert log(dsn) == [] and whole(dsn, "claims") == []
    with pytest.raises(UnfinishedRestoreError):
        run(migrate(dsn))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": "something"}, "is not a backup of Beamwright"),
        ({"schema": "9999"}, "has schema 9999"),
        ({"version": 2}, "has version 2 of the format"),
        ({"version": "one"}, "its manifest cannot be read"),
    ],
)
def test_backup_that_is_not_for_us_is_refused(
    backup: Path, tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    def change(name: str, content: bytes) -> bytes:
        return msgspec.json.encode(msgspec.json.decode(content) | changes) if name == MANIFEST else content

    path = rewritten(backup, tmp_path / "foreign.backup", change)
    with pytest.raises(NotPossibleError, match=sentence):
        brought_back(None, path, data=tmp_path / "untouched")
    assert not (tmp_path / "untouched").exists()


@pytest.mark.parametrize("schema", sorted(SINCE))
def test_backup_of_an_earlier_schema_comes_back_with_the_tables_of_today(
    cluster: Cluster, backup: Path, tmp_path: Path, schema: str
) -> None:
    later = {table for revision, tables in SINCE.items() if revision > schema for table in tables}

    def change(name: str, content: bytes) -> bytes:
        if name != MANIFEST:
            return content
        manifest = msgspec.json.decode(content)
        manifest["parts"] = [part for part in manifest["parts"] if part["name"] not in later]
        return msgspec.json.encode(manifest | {"schema": schema})

    dsn = cluster.empty_database()
    brought_back(dsn, rewritten(backup, tmp_path / "earlier.backup", change))
    assert log(dsn) and [whole(dsn, table) for table in later] == [[]] * len(later)
    assert run(migrate(dsn)) is False


def test_file_that_is_no_backup_is_refused(tmp_path: Path) -> None:
    text, archive = tmp_path / "text", tmp_path / "archive.zip"
    text.write_text("not a backup")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("readme", "not a backup either")
    for path in (text, archive):
        with pytest.raises(NotPossibleError, match="is not a backup of Beamwright"):
            brought_back(None, path)
    with pytest.raises(NotPossibleError, match="cannot be read"):
        brought_back(None, tmp_path / "absent")
