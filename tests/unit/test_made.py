"""The page of what sessions made."""

from __future__ import annotations

from array import array
from pathlib import Path

from noclobber.made import Made
from noclobber.wire import Version

LAST = 30_000


def marks(place: Path) -> set[int]:
    return set(array("Q", place.read_bytes()))


def test_what_was_made_last_is_marked_however_much_was_made_before(tmp_path):
    """Marks of files long gone filled the page, and a build that made its files
    anew had as many questions about them."""
    full, fresh = tmp_path / "full", tmp_path / "fresh"
    for place, first in ((full, 0), (fresh, 400_000 - LAST)):
        made = Made(place)
        for n in range(first, 400_000):
            made.add(b"s", Version(1, n, 10, n, n))
        made.close()
    wanted = marks(fresh)
    assert len(wanted) > LAST * 0.99
    assert len(wanted - marks(full)) < LAST / 1000
