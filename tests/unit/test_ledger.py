"""Ledger, lineage and holding, told stories of made-up processes and files."""

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noclobber import coverage, origins, wire
from noclobber.holding import Holding
from noclobber.ledger import Image, Ledger, Replaced, identify
from noclobber.lineage import Lineage
from noclobber.wire import C, Version


@dataclass
class File:
    ino: int
    size: int = 0
    time: int = 0

    @property
    def version(self) -> Version:
        return Version(1, self.ino, self.size, self.time, self.time)

    @property
    def key(self) -> bytes:
        return identify(self.version)[0]

    @property
    def stamp(self) -> bytes:
        return identify(self.version)[1]


@dataclass
class Story:
    """One session. Time goes on by itself."""

    ledger: Ledger = field(default_factory=Ledger)
    reads_count: bool = False
    clock: itertools.count = field(default_factory=lambda: itertools.count(1))

    def image(self, *argv: str, parent: Image | None = None) -> Image:
        number = next(self.clock)
        words = tuple(word.encode() for word in argv) or (b"prog",)
        image = Image(number, parent.token if parent else 0, number, 1, b"", words, b"c", number)
        self.ledger.start_image(image)
        return image

    def file(self, size: int = 0) -> File:
        now = next(self.clock)
        return File(now, size, now)

    def read(self, image: Image, file: File, *ranges: tuple[int, int], flags: int = 0) -> None:
        spans = ranges or ((0, file.size),)
        raw = wire.record(
            C.NC_READ, wire.READ, *file.version, len(spans), 0, flags=flags,
            tail=b"".join(wire.RANGE.pack(*span) for span in spans),
        )  # fmt: skip
        self.ledger.read(image, raw, 0, len(raw))

    def write(
        self, image: Image, file: File, size: int, flags: int = C.NC_TRUNCATED, path: bytes = b"/f"
    ) -> None:
        """Opened (emptied where the flags say so), written and closed."""
        if flags & (C.NC_TRUNCATED | C.NC_CREATED):
            file.size, file.time = 0, next(self.clock)
        before = file.version
        file.size, file.time = size, next(self.clock)
        self.ledger.wrote(image, file.version, before, flags, path, file.time)

    def foreign(self, file: File, size: int) -> None:
        """Somebody outside of the session changes it."""
        file.size, file.time = size, next(self.clock)

    def replace(self, file: File, path: bytes, *, known: bool = False) -> None:
        self.ledger.replaced(Replaced(path, file.key, file.stamp, 0, C.NC_OP_RENAME, known))

    @property
    def holding(self) -> Holding:
        return Holding(self.ledger, origins.origin, self.reads_count)

    def held(self, file: File) -> coverage.Coverage:
        return self.holding.held(file.key, file.stamp)

    def holds(self, file: File) -> bool:
        return coverage.covers(self.held(file), 0, file.size)

    def lineage(self, target: File, image: Image) -> coverage.Coverage:
        lineage = Lineage(self.ledger, target.key, target.size)
        return lineage.read(lineage.of([image.token]), target.stamp)


@pytest.fixture
def story() -> Story:
    return Story()


# What was read.


def test_reads_of_many_images_add_up(story):
    f = story.file(100)
    story.read(story.image(), f, (0, 40))
    story.read(story.image(), f, (30, 60), (80, 100))
    assert story.ledger.read_by(None, f.key, f.stamp) == ((0, 60), (80, 100))


def test_a_read_of_another_version_does_not_count(story):
    f, cat = story.file(100), story.image()
    story.read(cat, f)
    story.foreign(f, 100)
    assert story.ledger.read_by(None, f.key, f.stamp) == ()


def test_a_program_that_changed_the_file_itself_still_knows_it(story):
    f, prog = story.file(100), story.image()
    story.read(prog, f, flags=C.NC_WRITABLE)
    story.foreign(f, 90)
    assert story.lineage(f, prog) == ((0, 90),)
    assert story.ledger.read_by(None, f.key, f.stamp) == ()


def test_a_rename_leaves_the_version_what_it_was(story):
    f, prog = story.file(100), story.image()
    story.read(prog, f)
    f_before = f.stamp
    moved = Version(1, f.ino, 100, f.time, f.time + 5)
    story.ledger.named(*identify(moved), C.NC_RENAMED, b"/a", b"/b")
    assert story.ledger.same(f.key, f_before, identify(moved)[1])
    assert coverage.size(story.ledger.read_by(None, f.key, identify(moved)[1])) == 100


def test_the_same_size_and_time_with_another_ctime_is_another_version(story):
    f = story.file(100)
    forged = Version(1, f.ino, 100, f.time, f.time + 5)
    assert not story.ledger.same(f.key, f.stamp, identify(forged)[1])


# Lineage.


def test_lineage_goes_to_the_image_it_was_forked_from(story):
    f, shell = story.file(100), story.image("bash")
    story.read(shell, f, (0, 50))
    assert story.lineage(f, story.image("bash", parent=shell)) == ((0, 50),)


def test_lineage_does_not_go_down_to_children(story):
    f, shell = story.file(100), story.image("bash")
    story.read(story.image("cat", parent=shell), f)
    assert story.lineage(f, shell) == ()


@pytest.mark.parametrize("carried, goes", [(100, True), (10, True), (9, False), (2**64 - 1, True)])
def test_lineage_goes_through_a_pipe_that_carried_a_tenth(story, carried, goes):
    f, filter_, sink = story.file(100), story.image("sed"), story.image("sponge")
    story.read(filter_, f)
    story.ledger.piped(filter_, 7, C.NC_PIPE_WRITE, carried)
    story.ledger.piped(sink, 7, C.NC_PIPE_READ, 2**64 - 1)
    assert story.lineage(f, sink) == (((0, 100),) if goes else ())


def test_a_pipes_reader_knows_best_what_came_through(story):
    f, filter_, sink = story.file(100), story.image("tee"), story.image("wc")
    story.read(filter_, f)
    story.ledger.piped(filter_, 7, C.NC_PIPE_WRITE, 5000)
    story.ledger.piped(sink, 7, C.NC_PIPE_READ, 3)
    assert story.lineage(f, sink) == ()


def test_lineage_goes_through_files_that_the_session_made(story):
    f, t, u = story.file(100), story.file(), story.file()
    sed, tr, cp = story.image("sed"), story.image("tr"), story.image("cp")
    story.read(sed, f)
    story.write(sed, t, 100, path=b"/t")
    story.read(tr, t)
    story.write(tr, u, 100, path=b"/u")
    story.read(cp, u)
    assert story.lineage(f, cp) == ((0, 100),)


def test_lineage_ends_where_it_goes_round(story):
    f, t = story.file(100), story.file()
    one, two = story.image("a"), story.image("b")
    story.write(one, t, 10, path=b"/t")
    story.read(two, t)
    story.read(one, t)
    story.write(two, t, 20, flags=C.NC_APPEND, path=b"/t")
    for ino, reader, writer in ((1, one, two), (2, two, one)):
        story.ledger.piped(writer, ino, C.NC_PIPE_WRITE, 999)
        story.ledger.piped(reader, ino, C.NC_PIPE_READ, 999)
    story.read(two, f, (0, 10))
    assert story.lineage(f, one) == ((0, 10),)


def test_what_a_program_wrote_itself_it_knows(story):
    f, ed = story.file(100), story.image("ed")
    story.read(ed, f)
    story.write(ed, f, 110)
    assert story.lineage(f, ed) == ((0, 110),)
    story.foreign(f, 120)
    assert story.lineage(f, ed) == ()


# Holding.


def test_a_created_file_is_held(story):
    f = story.file()
    story.write(story.image("python3"), f, 50)
    assert story.holds(f)


def test_a_redirection_is_held_by_the_child_that_wrote_into_it(story):
    """`seq 4000 > f`: the shell's child reports the opening, seq the bytes."""
    f, shell = story.file(), story.image("bash")
    story.write(shell, f, 0, C.NC_TRUNCATED | C.NC_OPENED)
    story.write(story.image("seq"), f, 50, C.NC_INHERIT | C.NC_UPDATE)
    assert story.holds(f)


def test_a_group_redirection_tells_of_one_opening_twice(story):
    """`{ echo a; seq 9; echo b; } > f`: the shell closes what it opened."""
    f, shell = story.file(), story.image("bash")
    f.size, f.time = 0, next(story.clock)
    opened = f.version
    f.size = 2
    story.write(story.image("seq"), f, 20, C.NC_INHERIT | C.NC_UPDATE)
    f.size, f.time = 22, next(story.clock)
    story.ledger.wrote(shell, f.version, opened, C.NC_TRUNCATED, b"/f", f.time)
    assert story.holds(f)


def test_what_git_prints_into_a_group_stays_gits(story):
    f, shell = story.file(), story.image("bash")
    f.size, f.time = 0, next(story.clock)
    opened = f.version
    f.size = 2
    story.write(story.image("git", "show", "HEAD:f"), f, 20, C.NC_INHERIT | C.NC_UPDATE)
    f.size, f.time = 22, next(story.clock)
    story.ledger.wrote(shell, f.version, opened, C.NC_TRUNCATED, b"/f", f.time)
    assert story.held(f) == ((0, 2), (20, 22))


def test_an_append_adds_what_it_wrote_and_no_more(story):
    f = story.file(100)
    story.write(story.image("bash"), f, 130, C.NC_APPEND)
    assert story.held(f) == ((100, 130),)


def test_an_append_to_an_own_file_leaves_it_held(story):
    f = story.file()
    story.write(story.image("bash"), f, 100)
    story.write(story.image("bash"), f, 130, C.NC_APPEND)
    assert story.holds(f)


def test_an_append_after_a_foreign_change_holds_its_own_part_alone(story):
    f = story.file()
    story.write(story.image("bash"), f, 100)
    story.foreign(f, 120)
    story.write(story.image("bash"), f, 130, C.NC_APPEND)
    assert story.held(f) == ((120, 130),)


def test_a_foreign_change_at_the_end_voids_all(story):
    f = story.file()
    story.write(story.image("bash"), f, 100)
    story.foreign(f, 100)
    assert story.held(f) == ()


def test_an_edit_in_place_of_an_own_file_leaves_it_held(story):
    f = story.file()
    story.write(story.image("bash"), f, 100)
    story.write(story.image("python3"), f, 120, C.NC_UPDATE)
    assert story.holds(f)


def test_an_edit_in_place_of_a_known_version_leaves_it_held(story):
    f = story.file(100)
    story.replace(f, b"/f", known=True)
    story.write(story.image("dd"), f, 100, C.NC_UPDATE)
    assert story.holds(f)


def test_an_edit_in_place_of_anything_else_holds_nothing_of_it(story):
    f = story.file(100)
    story.write(story.image("python3"), f, 100, C.NC_UPDATE)
    assert story.held(f) == ()


def test_a_transform_of_something_unknown_is_not_held(story):
    """`sed -i`: what it carried over has still been seen by nobody."""
    old, new, sed = story.file(100), story.file(), story.image("sed", "-i")
    story.read(sed, old)
    story.write(sed, new, 100, path=b"/sedX")
    story.replace(old, b"/f")
    story.ledger.named(new.key, new.stamp, C.NC_RENAMED, b"/sedX", b"/f")
    assert story.held(new) == ()


def test_a_transform_of_something_known_is_held(story):
    old, new, sed = story.file(100), story.file(), story.image("sed", "-i")
    story.read(sed, old)
    story.write(sed, new, 100, path=b"/sedX")
    story.replace(old, b"/f", known=True)
    story.ledger.named(new.key, new.stamp, C.NC_RENAMED, b"/sedX", b"/f")
    assert story.holds(new)


def test_a_rewrite_in_place_from_its_own_unknown_content_is_not_held(story):
    f, prog = story.file(100), story.image("python3")
    story.read(prog, f)
    story.write(prog, f, 110)
    assert story.held(f) == ()


def test_a_rewrite_of_an_own_file_from_itself_is_held(story):
    f = story.file()
    story.write(story.image("bash"), f, 100)
    prog = story.image("python3")
    story.read(prog, f)
    story.write(prog, f, 110)
    assert story.holds(f)


def test_a_program_that_reads_back_what_it_just_wrote_holds_it(story):
    f, prog = story.file(), story.image("python3")
    story.write(prog, f, 100)
    story.read(prog, f)
    assert story.holds(f)


def test_in_grade_read_a_version_read_whole_was_known(story):
    story.reads_count = True
    f, prog = story.file(100), story.image("python3")
    story.read(prog, f)
    story.write(prog, f, 110)
    assert story.holds(f)


def test_a_copy_of_an_own_file_is_held_and_of_another_not(story):
    own, other, a, b = story.file(), story.file(100), story.file(), story.file()
    story.write(story.image("bash"), own, 100, path=b"/own")
    for source, target in ((own, a), (other, b)):
        cp = story.image("cp", "s", "t")
        story.read(cp, source)
        story.write(cp, target, 100, path=b"/t")
    assert story.holds(a) and story.held(b) == ()


def test_a_copy_whose_source_was_not_followed_is_from_elsewhere(story):
    f = story.file()
    story.write(story.image("cp", "/elsewhere/s", "f"), f, 100)
    assert story.held(f) == ()


@pytest.mark.parametrize("argv", ["git clone x", "curl -o f http://x", "tar xf a.tar"])
def test_what_was_brought_from_elsewhere_is_not_held(story, argv):
    f = story.file()
    story.write(story.image(*argv.split()), f, 100)
    assert story.held(f) == ()


def test_tee_of_the_agents_text_is_held_and_of_a_foreign_file_not(story):
    for number, (argv, held) in enumerate((("printf x", True), ("cat /etc/x", False)), 1):
        f, source, tee = story.file(), story.image(*argv.split()), story.image("tee", "f")
        story.ledger.piped(source, number, C.NC_PIPE_WRITE, 100)
        story.ledger.piped(tee, number, C.NC_PIPE_READ, 100)
        story.write(tee, f, 100)
        assert story.holds(f) == held, argv


def test_what_git_says_is_a_programs_output(story):
    f = story.file()
    story.write(story.image("git", "log"), f, 100, C.NC_INHERIT | C.NC_TRUNCATED)
    assert story.holds(f)


def test_a_change_of_mode_is_told_from_a_foreign_change(story):
    f = story.file()
    story.write(story.image("bash"), f, 100)
    chmod = identify(Version(1, f.ino, 100, f.time, f.time + 9))[1]
    assert story.holding.held(f.key, chmod) == ()
    assert story.holding.was_held(f.key, chmod)
    touched = identify(Version(1, f.ino, 100, f.time + 9, f.time + 9))[1]
    assert not story.holding.was_held(f.key, touched)


def test_an_image_that_never_said_hello_holds_nothing(story):
    f, ghost = story.file(), Image(99, 0, 1, 1, b"", (b"x",), b"c", 0)
    story.write(ghost, f, 100)
    assert story.held(f) == ()


STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "append", "foreign", "truncate"]), st.integers(1, 9)),
    max_size=12,
)


@given(STEPS)
def test_held_is_just_what_the_session_wrote_last(steps):
    """Against a model that knows the author of each byte."""
    story, model = Story(), []
    f, shell = story.file(), story.image("bash")
    trusted = True
    for step, amount in steps:
        if step in ("create", "truncate"):
            story.write(shell, f, amount)
            model, trusted = ["own"] * amount, True
        elif step == "append":
            story.write(shell, f, len(model) + amount, C.NC_APPEND)
            # After a foreign change nobody knows what became of the rest.
            model = (model if trusted else ["?"] * len(model)) + ["own"] * amount
            trusted = True
        else:
            story.foreign(f, len(model) + amount)
            model, trusted = ["?"] * (len(model) + amount), False
    held = story.held(f)
    own = {i for i, who in enumerate(model) if who == "own"} if trusted else set()
    assert {b for s, e in held for b in range(s, e)} == own


# Frugality.


def test_a_file_that_is_written_for_ever_costs_no_more_and_no_longer(story):
    f, shell = story.file(), story.image("bash")
    for _ in range(1000):
        story.write(shell, f, 10)
    assert len(story.ledger.writes[f.key]) <= 128
    assert story.holds(f)


def test_the_same_report_twice_is_one(story):
    f, shell = story.file(), story.image("bash")
    story.write(shell, f, 10)
    story.ledger.wrote(shell, f.version, story.file().version, C.NC_TRUNCATED, b"/f", 1)
    before = len(story.ledger.writes[f.key])
    last = story.ledger.writes[f.key][-1]
    opened = Version(*wire.VERSION.unpack(f.key + last.opened))
    story.ledger.wrote(shell, f.version, opened, last.flags, b"/f", 2)
    assert len(story.ledger.writes[f.key]) == before
