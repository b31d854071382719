"""What is protected, and for whom, in real git repositories."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from noclobber import gitask, repository
from noclobber.gitguard import git_holds
from noclobber.protected import Place, Protection, Standing, default_root, skip_directories
from noclobber.repository import Repositories

OUTPUTS = ("*.log", "nohup.out", "*.pid", "core")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and nobody else's git configuration."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "n")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "n@example.org")
    return home


@pytest.fixture
def repositories() -> Iterator[Repositories]:
    repositories = Repositories()
    yield repositories
    repositories.close()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit, and rules of what it ignores."""
    tree = tmp_path / "tree"
    git(None, "init", "-q", "-b", "main", str(tree))
    write(tree / ".gitignore", "*.gen\n!keep.gen\nnode_modules\n/build/\n.env\n")
    write(tree / "src/a.txt", "one\n")
    commit(tree)
    return tree


def git(where: Path | None, *words: str) -> str:
    at = ["-C", str(where)] if where else []
    command = ["git", "-c", "protocol.file.allow=always", *at, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def commit(tree: Path) -> None:
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "c")


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


class Look:
    """Asks about paths under the roots that it was made with."""

    def __init__(self, repositories: Repositories, *roots: Path, **more: object) -> None:
        options = {"outputs": OUTPUTS, **more}
        skip = [os.fsencode(path) for path in options.pop("skip", ())]  # type: ignore[attr-defined]
        self.protection = Protection(
            [os.fsencode(root) for root in roots],
            skip,
            repositories=repositories,
            **options,  # type: ignore[arg-type]
        )

    def at(self, path: Path) -> Standing:
        return self.protection.standing(os.fsencode(path))

    def kinds(self, path: Path) -> str:
        """The kinds of writers that a path is protected from."""
        standing = self.at(path)
        return " ".join(k for k in ("voiced", "direct", "driven") if standing.protected_from(k))


ALL = "voiced direct driven"


def test_every_file_under_a_root_is_protected(tree: Path, repositories: Repositories) -> None:
    look = Look(repositories, tree)
    for name in ("src/a.txt", "new", "src/deep/new", "keep.gen", ".gitignore", "x.git/f"):
        assert look.kinds(tree / name) == ALL, name
        assert look.at(tree / name).place is Place.ROOT


def test_what_git_ignores_is_protected_from_voiced_writers_only(
    tree: Path, repositories: Repositories
) -> None:
    look = Look(repositories, tree)
    for name in ("out.gen", "src/out.gen", ".env", "node_modules/a/b.js", "build/x"):
        assert look.kinds(tree / name) == "voiced", name
    assert look.kinds(tree / "src/build/x") == ALL
    assert look.at(tree / "out.gen").where() == "under a root"  # git was not asked
    standing = look.at(tree / "out.gen")
    assert standing.ignored.ignored
    assert standing.where() == "ignored by git"


def test_what_is_tracked_is_not_ignored(tree: Path, repositories: Repositories) -> None:
    look = Look(repositories, tree)
    write(tree / "out.gen", "x\n")
    write(tree / "build/kept", "x\n")
    assert look.kinds(tree / "out.gen") == "voiced"
    assert look.kinds(tree / "build/kept") == "voiced"
    assert look.at(tree / "build/kept").scope("direct") == os.fsencode(tree / "build")
    git(tree, "add", "-f", "out.gen", "build/kept")
    assert look.kinds(tree / "out.gen") == ALL
    assert look.kinds(tree / "build/kept") == ALL
    assert look.kinds(tree / "build/other") == "voiced"
    assert look.at(tree / "build/other").scope("direct") == b""
    git(tree, "rm", "-q", "--cached", "out.gen", "build/kept")
    assert look.kinds(tree / "out.gen") == "voiced"
    assert look.at(tree / "build/other").scope("direct") == os.fsencode(tree / "build")


def test_rules_that_change_are_read_again(
    tree: Path, home: Path, repositories: Repositories
) -> None:
    look = Look(repositories, tree)
    path = tree / "src/deep/f.txt"
    assert look.kinds(path) == ALL
    for rules in (
        tree / ".gitignore",
        tree / "src/.gitignore",
        tree / ".git/info/exclude",
        home / ".config/git/ignore",
    ):
        before = rules.read_bytes() if rules.exists() else None
        write(rules, (before or b"") + b"f.txt\n")
        assert look.kinds(path) == "voiced", rules
        if before is None:
            rules.unlink()
        else:
            rules.write_bytes(before)
        assert look.kinds(path) == ALL, rules
    write(tree / "src/deep/.gitignore", "!f.txt\n")
    write(tree / ".gitignore", "f.txt\n")
    assert look.kinds(path) == ALL
    git(tree, "config", "core.excludesFile", str(write(home / "mine", "*.own\n")))
    assert look.kinds(tree / "a.own") == "voiced"
    write(home / "mine", "*.other\n")
    assert look.kinds(tree / "a.own") == ALL


def test_the_innermost_repository_speaks(tree: Path, repositories: Repositories) -> None:
    inner = tree / "node_modules/clone"
    git(None, "init", "-q", str(inner))
    write(inner / ".gitignore", "*.o\n")
    look = Look(repositories, tree)
    assert look.kinds(inner / "f.c") == ALL
    assert look.kinds(inner / "f.o") == "voiced"
    assert look.kinds(inner / "a.gen") == ALL
    assert look.kinds(tree / "node_modules/other/f.c") == "voiced"


def test_linked_work_trees_and_submodules(
    tree: Path, tmp_path: Path, repositories: Repositories
) -> None:
    linked = tmp_path / "linked"
    git(tree, "worktree", "add", "-q", str(linked), "-b", "side")
    git(tree, "submodule", "--quiet", "add", str(tree), "sub")
    commit(tree)
    write(tree / ".git/info/exclude", "*.common\n")
    write(tree / ".git/modules/sub/info/exclude", "*.sub\n")
    look = Look(repositories, tree, linked)
    assert look.kinds(linked / "a.txt") == ALL
    assert look.kinds(linked / "out.gen") == "voiced"
    assert look.kinds(linked / "x.common") == "voiced"
    assert look.kinds(tree / "sub/src/a.txt") == ALL
    assert look.kinds(tree / "sub/x.gen") == "voiced"
    assert look.kinds(tree / "sub/x.sub") == "voiced"
    assert look.kinds(tree / "sub/x.common") == ALL
    for path in (linked / ".git", tree / "sub/.git", tree / ".git/modules/sub/config"):
        assert look.kinds(path) == "", path
    assert git_holds(repositories, os.fsencode(linked / "src/a.txt"), b"one\n")
    assert git_holds(repositories, os.fsencode(tree / "sub/src/a.txt"), b"one\n")
    write(linked / "src/a.txt", "two\n")
    git(linked, "commit", "-qam", "two")
    assert git_holds(repositories, os.fsencode(linked / "src/a.txt"), b"two\n")
    assert not git_holds(repositories, os.fsencode(tree / "src/a.txt"), b"two\n")


def test_what_is_gits_own_is_not_protected(
    tree: Path, tmp_path: Path, repositories: Repositories
) -> None:
    bare = tree / "mirrors/x.git"
    git(None, "init", "-q", "--bare", str(bare))
    apart = tree / "meta"
    git(None, "init", "-q", f"--separate-git-dir={apart}", str(tree / "work"))
    look = Look(repositories, tree)
    for path, scope in (
        (tree / ".git/config", tree / ".git"),
        (tree / ".git/hooks/pre-commit", tree / ".git"),
        (bare / "config", bare),
        (bare / "refs/heads/x", bare),
        (apart / "index", apart),
    ):
        assert look.kinds(path) == "", path
        assert look.at(path).place is Place.GIT
        assert look.at(path).scope("voiced") == os.fsencode(scope)
    assert look.kinds(tree / "mirrors/HEAD") == ALL
    assert look.kinds(tree / "work/f") == ALL
    assert look.at(tmp_path / "else/.git/config").place is Place.GIT


def test_outside_the_roots_only_voiced_writers_are_judged(
    tree: Path, home: Path, repositories: Repositories
) -> None:
    look = Look(repositories, tree)
    assert look.kinds(home / ".bashrc") == "voiced"
    assert look.kinds(Path(f"{tree}-twin/f")) == "voiced"
    assert look.at(home / ".bashrc").place is Place.OUTSIDE
    # No wider than where no root lies.
    assert look.at(home / "a/b/f").scope("direct") == os.fsencode(home)
    assert look.at(home / "a/b/f").scope("voiced") == b""
    assert look.at(tree.parent / "f").scope("direct") == b""


def test_the_longest_of_roots_and_temporary_directories_counts(
    tmp_path: Path, repositories: Repositories
) -> None:
    temporary = tmp_path / "tmp"
    root = temporary / "case/tree"
    cache = root / "cache"
    look = Look(repositories, root, skip=[temporary, cache])
    assert look.kinds(temporary / "f") == ""
    assert look.kinds(root / "f") == ALL
    assert look.kinds(cache / "f") == ""
    assert look.at(cache / "x/f").scope("voiced") == os.fsencode(cache)
    # A root lies under each of these.
    assert look.at(temporary / "f").scope("voiced") == b""
    assert look.at(temporary / "case/f").scope("voiced") == b""
    assert look.at(temporary / "other/deep/f").scope("voiced") == os.fsencode(temporary / "other")
    assert Look(repositories, root, skip=[root]).kinds(root / "f") == ALL


def test_names_that_are_outputs_by_convention(tree: Path, repositories: Repositories) -> None:
    look = Look(repositories, tree, outputs=(*OUTPUTS, "reports/*.xml"))
    for name in ("a.log", "x/config.log", "nohup.out", "core", "d.pid", "reports/a.xml"):
        assert look.at(tree / name).output, name
        assert look.kinds(tree / name) == ALL
    for name in ("a.log.1", "core/main.py", "nohup.out.txt", "a.xml", "x/log", "blog"):
        assert not look.at(tree / name).output, name
    assert not Look(repositories, tree, outputs=()).at(tree / "a.log").output


def test_what_the_configuration_leaves_out(
    tree: Path, home: Path, repositories: Repositories
) -> None:
    globs = ("/out/", "*.tmp", "~/scratch/")
    look = Look(repositories, tree, unprotected=globs)
    for name in ("out/a", "out/deep/b", "x/y.tmp"):
        assert look.kinds(tree / name) == "", name
    assert look.kinds(tree / "x/out/a") == ALL
    assert look.kinds(home / "scratch/a") == ""
    assert look.kinds(home / "other") == "voiced"
    assert look.at(tree / "out/deep/b").scope("voiced") == os.fsencode(tree / "out")
    assert look.at(tree / "x/y.tmp").scope("voiced") == b""
    again = Look(repositories, tree, unprotected=("/out/*", "!/out/kept"))
    assert again.kinds(tree / "out/kept") == ALL
    assert again.kinds(tree / "out/a") == ""
    assert again.at(tree / "out/d/a").scope("voiced") == b""


def test_an_ignored_directory_is_a_scope_where_nothing_in_it_has_a_say(
    tree: Path, repositories: Repositories
) -> None:
    write(tree / "node_modules/a/index.js", "x\n")
    look = Look(repositories, tree)
    path = tree / "node_modules/a/index.js"
    assert look.at(path).scope("driven") == os.fsencode(tree / "node_modules")
    assert look.at(path).scope("voiced") == b""
    assert look.at(tree / "src/out.gen").scope("driven") == b""
    git(None, "init", "-q", str(tree / "node_modules/@x/clone"))
    fresh = Look(repositories, tree)
    assert fresh.at(path).scope("driven") == os.fsencode(tree / "node_modules/a")
    rooted = Look(repositories, tree, tree / "node_modules/a/deep")
    assert rooted.at(path).scope("driven") == b""


def test_names_that_are_no_text(tree: Path, repositories: Repositories) -> None:
    look = Look(repositories, tree)
    odd = os.fsdecode(b"a\n\xff :b")
    write(tree / odd / "f.txt", "x\n")
    write(tree / odd / "f.gen", "x\n")
    assert look.kinds(tree / odd / "f.txt") == ALL
    assert look.kinds(tree / odd / "f.gen") == "voiced"
    path = os.fsencode(tree / odd / "f.txt")
    assert not git_holds(repositories, path, b"x\n")
    git(tree, "add", ".")
    assert git_holds(repositories, path, b"x\n")
    write(tree / "1:a", "y\n")
    git(tree, "add", ".")
    assert git_holds(repositories, os.fsencode(tree / "1:a"), b"y\n")


def test_without_a_repository_nothing_is_ignored(
    tmp_path: Path, repositories: Repositories
) -> None:
    write(tmp_path / "t/.gitignore", "*.gen\n")
    look = Look(repositories, tmp_path / "t")
    assert look.kinds(tmp_path / "t/a.gen") == ALL
    assert not git_holds(repositories, os.fsencode(tmp_path / "t/.gitignore"), b"*.gen\n")
    write(tmp_path / "t/.git/readme", "no repository\n")
    assert look.kinds(tmp_path / "t/a.gen") == ALL


def test_a_repository_made_in_the_session_is_noticed(
    tmp_path: Path, repositories: Repositories
) -> None:
    path = write(tmp_path / "t/a.gen", "x\n")
    look = Look(repositories, tmp_path / "t")
    assert look.kinds(path) == ALL
    git(None, "init", "-q", str(tmp_path / "t"))
    write(tmp_path / "t/.gitignore", "*.gen\n")
    assert look.kinds(path) == "voiced"
    git(tmp_path / "t", "add", "-f", "a.gen")
    assert git_holds(repositories, os.fsencode(path), b"x\n")


LIBRARY_CASES = (
    "out.gen", "keep.gen", "src/out.gen", "node_modules/a/b.js", "build/x", "src/build/x", ".env",
    "src/a.txt", "local.x", "sub/only.txt", "sub/deep/only.txt", "only.txt", "sub/keep.gen",
    "node_modules/keep.gen", "everywhere.y",
)  # fmt: skip


def test_the_library_says_what_git_says(
    tree: Path, home: Path, repositories: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree / ".git/info/exclude", "local.x\n")
    write(tree / "sub/.gitignore", "only.txt\n/here\nkeep.gen\n")
    write(home / ".config/git/ignore", "*.y\n!out.gen\n")
    look = Look(repositories, tree)
    by_git = {name: look.kinds(tree / name) for name in LIBRARY_CASES}
    assert set(by_git.values()) == {ALL, "voiced"}
    empty = home / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    without = Repositories()
    assert {name: Look(without, tree).kinds(tree / name) for name in LIBRARY_CASES} == by_git
    assert not git_holds(without, os.fsencode(tree / "src/a.txt"), b"one\n")


def test_globs_that_are_none_count_for_nothing(
    tree: Path, repositories: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = ("!", "\\", "[", "/", "**x[", "(", "[z-a]")
    look = Look(repositories, tree, unprotected=(*odd, "*.tmp"))
    assert look.kinds(tree / "a.tmp") == ""
    assert look.kinds(tree / "a") == ALL
    write(tree / ".gitignore", "\n".join((*odd, "*.gen", "")))
    monkeypatch.setenv("PATH", "/nonexistent")
    without = Look(Repositories(), tree)
    assert without.kinds(tree / "a.gen") == "voiced"
    assert without.kinds(tree / "a") == ALL


def test_git_holds_what_head_or_the_index_has(tree: Path, repositories: Repositories) -> None:
    path = tree / "src/a.txt"
    name = os.fsencode(path)
    assert git_holds(repositories, name, b"one\n")
    assert not git_holds(repositories, name, b"two\n")
    assert not git_holds(repositories, name, b"")
    assert not git_holds(repositories, name, b"one")
    assert not git_holds(repositories, os.fsencode(tree / "src"), b"one\n")
    assert not git_holds(repositories, os.fsencode(tree / "src/b.txt"), b"one\n")
    write(path, "two\n")
    git(tree, "add", ".")
    assert git_holds(repositories, name, b"two\n")
    assert git_holds(repositories, name, b"one\n")
    git(tree, "commit", "-qm", "two")
    assert not git_holds(repositories, name, b"one\n")
    git(tree, "checkout", "-q", "-b", "side", "HEAD~1")
    assert git_holds(repositories, name, b"one\n")
    assert not git_holds(repositories, name, b"two\n")
    git(tree, "gc", "-q", "--prune=now")
    write(path, "three\n")
    git(tree, "commit", "-qam", "three")
    git(tree, "gc", "-q", "--prune=now")
    assert git_holds(repositories, name, b"three\n")
    git(tree, "rm", "-q", "--cached", "src/a.txt")
    assert git_holds(repositories, name, b"three\n")
    git(tree, "commit", "-qm", "gone")
    assert not git_holds(repositories, name, b"three\n")


def test_git_holds_by_a_descriptor_of_any_kind(tree: Path, repositories: Repositories) -> None:
    body = b"line\n" * 700_000
    path = write(tree / "big", body)
    commit(tree)
    for flags in (os.O_RDONLY, os.O_PATH, os.O_WRONLY):
        fd = os.open(path, flags)
        try:
            if flags == os.O_RDONLY:
                os.lseek(fd, 7, os.SEEK_SET)
            assert git_holds(repositories, os.fsencode(path), fd)
            if flags == os.O_RDONLY:
                assert os.lseek(fd, 0, os.SEEK_CUR) == 7
        finally:
            os.close(fd)
    write(path, body[:-1] + b"x")
    fd = os.open(path, os.O_RDONLY)
    try:
        assert not git_holds(repositories, os.fsencode(path), fd)
    finally:
        os.close(fd)


def test_git_holds_with_another_hash(tmp_path: Path, repositories: Repositories) -> None:
    git(None, "init", "-q", "--object-format=sha256", str(tmp_path / "t"))
    path = write(tmp_path / "t/f", "one\n")
    commit(tmp_path / "t")
    assert git_holds(repositories, os.fsencode(path), b"one\n")
    assert not git_holds(repositories, os.fsencode(path), b"two\n")


def test_line_ends_count_as_held_where_git_converts_them(
    tree: Path, repositories: Repositories
) -> None:
    name = os.fsencode(tree / "src/a.txt")
    assert not git_holds(repositories, name, b"one\r\n")
    git(tree, "config", "core.autocrlf", "true")
    assert git_holds(repositories, name, b"one\r\n")
    assert not git_holds(repositories, name, b"two\r\n")
    write(tree / ".gitattributes", "*.txt -text\n")
    assert not git_holds(repositories, name, b"one\r\n")
    git(tree, "config", "--unset", "core.autocrlf")
    for rule, held in (
        ("text", True), ("text=auto", True), ("eol=crlf", True), ("binary", False),
        ("text filter=lfs", False),
    ):  # fmt: skip
        write(tree / ".gitattributes", f"*.txt {rule}\n")
        assert git_holds(repositories, name, b"one\r\n") is held, rule


def test_a_filter_is_never_run(tree: Path, repositories: Repositories, tmp_path: Path) -> None:
    for key in ("filter.x.clean", "filter.x.process", "core.fsmonitor"):
        git(tree, "config", key, f"touch {tmp_path}/ran; cat")
    write(tree / ".gitattributes", "*.txt filter=x\n")
    assert not git_holds(repositories, os.fsencode(tree / "src/a.txt"), b"one\r\n")
    assert Look(repositories, tree).kinds(tree / "out.gen") == "voiced"
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to give a tree away")
def test_a_tree_of_another_user(tree: Path, repositories: Repositories) -> None:
    for path in (tree, *tree.rglob("*")):
        os.chown(path, 65534, 65534)
    assert subprocess.run(["git", "-C", tree, "status"], capture_output=True).returncode != 0
    assert Look(repositories, tree).kinds(tree / "out.gen") == "voiced"
    assert git_holds(repositories, os.fsencode(tree / "src/a.txt"), b"one\n")


def test_the_sessions_variables_do_not_reach_git(
    tree: Path, tmp_path: Path, repositories: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(None, "init", "-q", str(tmp_path / "other"))
    for name, value in (
        ("GIT_DIR", str(tmp_path / "other/.git")),
        ("GIT_WORK_TREE", str(tmp_path / "other")),
        ("GIT_INDEX_FILE", "/nonexistent"),
        ("GIT_LITERAL_PATHSPECS", "1"),
        ("LD_PRELOAD", "/nonexistent.so"),
        ("NOCLOBBER_SESSION", "s"),
    ):
        monkeypatch.setenv(name, value)
    seen = gitask.environment()
    assert not {"GIT_DIR", "LD_PRELOAD", "NOCLOBBER_SESSION"} & seen.keys()
    assert seen["HOME"] == os.environ["HOME"]
    assert git_holds(repositories, os.fsencode(tree / "src/a.txt"), b"one\n")
    assert Look(repositories, tree).kinds(tree / "out.gen") == "voiced"


def fake_git(directory: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git that answers its version and otherwise does as `body` says."""
    tool = write(
        directory / "git",
        "#!/bin/sh\ncase $* in *--version) echo git version 2.39.5; exit;; esac\n" + body + "\n",
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


@pytest.mark.parametrize("body", ["exit 1", "echo nonsense; exit 0", "kill -9 $$"])
def test_a_git_that_fails_leaves_the_rules_to_the_library(
    body: str, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_git(tmp_path / "bin", body, monkeypatch)
    broken = Repositories()
    look = Look(broken, tree)
    assert look.kinds(tree / "out.gen") == "voiced"
    assert look.kinds(tree / "src/a.txt") == ALL
    assert not git_holds(broken, os.fsencode(tree / "src/a.txt"), b"one\n")
    broken.close()


def test_a_git_that_hangs_is_waited_for_once(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gitask, "LIMIT", 1.0)
    body = "case $* in *config*) exit 1;; esac; exec sleep 60"
    fake_git(tmp_path / "bin", body, monkeypatch)
    hanging = Repositories()
    look = Look(hanging, tree)
    before = time.monotonic()
    assert look.kinds(tree / "out.gen") == "voiced"
    assert look.kinds(tree / "src/a.txt") == ALL
    assert not git_holds(hanging, os.fsencode(tree / "src/a.txt"), b"one\n")
    assert time.monotonic() - before < 1.9
    hanging.close()


def gits() -> list[psutil.Process]:
    """The git processes of this one."""
    return [child for child in psutil.Process().children() if child.name() == "git"]


def test_a_git_that_was_killed_is_started_again(tree: Path, repositories: Repositories) -> None:
    look = Look(repositories, tree)
    git(tree, "rm", "-q", "--cached", "src/a.txt")  # HEAD alone holds it
    assert look.kinds(tree / "out.gen") == "voiced"
    assert git_holds(repositories, os.fsencode(tree / "src/a.txt"), b"one\n")
    for child in gits():
        child.kill()
    time.sleep(0.05)
    assert git_holds(repositories, os.fsencode(tree / "src/a.txt"), b"one\n")
    assert look.kinds(tree / "src/other.gen") == "voiced"


def test_no_more_processes_than_are_kept(
    tmp_path: Path, repositories: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "KEPT", 2)
    for n in range(4):
        git(None, "init", "-q", str(tmp_path / f"r{n}"))
        write(tmp_path / f"r{n}/.gitignore", "*.gen\n")
        assert Look(repositories, tmp_path).kinds(tmp_path / f"r{n}/a.gen") == "voiced"
    assert len(gits()) <= 4
    repositories.close()
    assert gits() == []


def test_git_leaves_no_trace(tree: Path, repositories: Repositories) -> None:
    write(tree / "src/a.txt", "one\n")  # the index would like to be refreshed
    before = {path: path.stat().st_mtime_ns for path in tree.rglob("*")}
    Look(repositories, tree).kinds(tree / "out.gen")
    git_holds(repositories, os.fsencode(tree / "src/a.txt"), b"one\n")
    assert {path: path.stat().st_mtime_ns for path in tree.rglob("*")} == before


def test_a_tree_that_is_gone(tree: Path, repositories: Repositories) -> None:
    look = Look(repositories, tree)
    assert look.kinds(tree / "out.gen") == "voiced"
    shutil.rmtree(tree)
    assert look.kinds(tree / "src/a.txt") == ALL
    assert not git_holds(repositories, os.fsencode(tree / "src/a.txt"), b"one\n")


def test_the_root_by_default(tree: Path, tmp_path: Path) -> None:
    (tree / "src/deep").mkdir()
    assert default_root(os.fsencode(tree / "src/deep")) == os.fsencode(tree)
    assert default_root(os.fsencode(tree)) == os.fsencode(tree)
    (tmp_path / "link").symlink_to(tree / "src")
    assert default_root(os.fsencode(tmp_path / "link")) == os.fsencode(tree)
    git(tree, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "side")
    assert default_root(os.fsencode(tmp_path / "linked/src")) == os.fsencode(tmp_path / "linked")
    (tmp_path / "plain").mkdir()
    assert default_root(os.fsencode(tmp_path / "plain")) == os.fsencode(tmp_path / "plain")


def test_temporary_directories_of_an_environment(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "tmp").symlink_to(tmp_path / "real")
    found = skip_directories(
        {"HOME": "/home/u", "TMPDIR": str(tmp_path / "tmp"), "XDG_RUNTIME_DIR": "/run/user/7"}
    )
    assert {b"/tmp", b"/var/tmp", b"/home/u/.cache", b"/run/user/7"} <= set(found)
    assert os.fsencode(tmp_path / "real") in found
    found = skip_directories({"HOME": "/home/u", "TMPDIR": "/", "XDG_CACHE_HOME": "/home/u"})
    assert not {b"/", b"/home/u", b"/home/u/.cache", b""} & set(found)
