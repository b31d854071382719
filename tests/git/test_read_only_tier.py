"""In the read-only tier nothing under the root changes, by whatever means; git
looks and fetches as ever, and outside of the root work goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

READ_ONLY = ("--tier", "read-only")


@pytest.fixture
def still(clean):
    """A clean repository, in the read-only tier."""
    clean.args = READ_ONLY
    return clean


def state(repo):
    """All that there is, git's own included, with modes and times."""
    found = {}
    for path in sorted([repo.tree, *repo.tree.rglob("*")]):
        stat = path.lstat()
        held = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (stat.st_mode, stat.st_mtime_ns, stat.st_ctime_ns, held)
    return found


CHANGES = [
    "echo x > new", "echo x >> f", ": > f", "printf x | tee f", "cp f g", "mv f g", "rm -f f",
    "mkdir d", "rmdir hollow", "rm -rf sub", "ln f g", "ln -s f g", "ln f ../g", "mkfifo p",
    "mknod p p", "chmod 600 f", "chown $UID f", "touch f", "touch new", "touch -h -d @0 f",
    "truncate -s 0 f", "sed -i s/1/2/ f", "dd of=f conv=notrunc if=/dev/null bs=1 count=0",
    "install -m 600 f g", "mktemp -p .", "mktemp -dp .", "setfattr -n user.x -v y f",
    "python3 -c 'open(\"new\", \"x\")'", "python3 -c 'import os; os.utime(\"f\")'",
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'",
    "python3 -c 'import os; os.rename(\"sub\", \"../sub\")'",
    "python3 -c 'import tempfile; tempfile.NamedTemporaryFile(dir=\".\")'",
    "ln -s tree/through ../link; echo x > ../link; rm ../link",
    "cd ..; echo x > tree/sub/../new", "echo x > \"$PWD/sub/../new\"", "tar c f | tar x -C sub",
    "perl -pi -e s/1/2/ f", "perl -e 'mkdir \"d\" or exit 1'", "touch .git/x",
    "echo x > .git/config", "rm -r hollow", "mv hollow full",
    "awk 'BEGIN { print 1 > \"new\" }'", "bash -c 'echo x > new'", "env -i bash -c 'echo x > new'",
]  # fmt: skip


@pytest.mark.parametrize("command", CHANGES)
def test_nothing_changes(still, command):
    (still.tree / "hollow").mkdir()
    before = state(still)
    if command.startswith("setfattr") and still.guard.bare("which", "setfattr").returncode:
        pytest.skip("needs setfattr")
    still.shell(command)
    assert state(still) == before
    assert still.receipts() != []


MUTATORS = [
    "commit -m x --allow-empty", "add f", "stash", "checkout side", "checkout -- f", "restore f",
    "clean -fd", "reset -q", "push . main:x", "pull . side", "merge side", "rebase side",
    "cherry-pick side", "revert HEAD", "rm f", "mv f g", "switch side", "branch -d side",
    "branch -D side", "branch new", "tag x", "tag -d x", "apply /dev/null", "am /dev/null",
    "archive -o x.tar HEAD", "submodule update", "worktree add ../wt", "config user.name x",
    "gc", "update-ref refs/heads/x HEAD", "fetch . side:refs/heads/y", "notes add -m x",
]  # fmt: skip


@pytest.mark.parametrize("command", MUTATORS)
def test_git_changes_nothing(still, command):
    before = state(still)
    done = still.shell(f"git {command}")
    assert done.returncode == 126
    assert state(still) == before
    (receipt,) = still.receipts()
    assert receipt["path"] == str(still.tree)


LOOKS = [
    "status", "status -s", "diff", "diff --stat HEAD~0", "log --oneline", "show --stat",
    "branch", "branch -a", "branch -vv", "branch --contains HEAD", "remote", "remote -v",
    "tag -l", "stash list", "config --get user.name", "config --list", "blame f", "ls-files",
    "cat-file -p HEAD", "rev-parse HEAD", "describe --always", "grep 7", "reflog", "shortlog -s",
    "worktree list", "submodule status", "check-ignore f", "for-each-ref",
    "-c alias.l='log -1' l", "--version", "help -a",
]  # fmt: skip


def test_git_looks_as_ever(still):
    still.bare("git config alias.st 'status -s'; touch -d '1 hour ago' f")
    for command in ["st", *LOOKS]:
        bare = still.guard.bare("bash", "-c", f"git {command}")
        done = still.shell(f"git {command}")
        assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout), command
        assert done.stderr == bare.stderr, command
    assert still.receipts() == []


def test_a_status_may_refresh_the_index(still):
    index = still.tree / ".git" / "index"
    still.bare("touch -d '1 hour ago' f")
    before = index.read_bytes()
    assert still.shell("git status -s").returncode == 0
    assert index.read_bytes() != before
    assert still.receipts() == []


@pytest.mark.parametrize("many", [3, 300], ids=["loose objects", "a pack"])
def test_a_fetch_brings_objects_and_remote_refs(still, many):
    still.bare(
        "git init -q -b main ../origin; cd ../origin;"
        f"for i in $(seq {many}); do echo $i > $i; done; git add .; git commit -qm o;"
        "cd ../tree; git remote add origin ../origin"
    )
    before = still.content()
    done = still.shell("git fetch -q && git fetch --all --prune -q && git log -1 origin/main")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "o" in still.bare("git log -1 --format=%s origin/main").stdout
    assert still.content() == before
    assert still.receipts() == []
    still.bare("rm -r ../origin")


def test_outside_of_the_root_work_goes_on(still):
    done = still.shell(
        "set -e; mkdir ../out; cd ../out; echo memo > memo; chmod 600 memo; ln -s memo link;"
        "mv memo note; touch note; git init -q; git add .; git commit -qm out;"
        "git clone -q ../tree c; cd c; echo x > new; git add new; git commit -qam c;"
        "git reset -q --hard HEAD~1; cd ../..; rm -rf out;"
        "echo x > /dev/null; mktemp; cat tree/f | sort > /dev/null"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert still.receipts() == []


def test_a_command_inside_has_no_wider_tier(still):
    before = state(still)
    still.shell("noclobber-exec --session other --tier workspace-write -- sh -c 'echo x > f'")
    assert state(still) == before


class TestOnDirty:
    @pytest.fixture
    def repo(self, repo):
        (repo.tree / "noclobber.toml").write_text('on_dirty = "read-only"\n')
        return repo

    def test_a_dirty_root_is_read_only(self, repo):
        before = repo.content()
        repo.shell("echo x > new; rm f; git commit -qam x; git checkout -- f")
        assert repo.content() == before
        assert set(repo.refused()) == {"new", "f", "."}

    def test_a_clean_root_is_not(self, repo):
        repo.bare("git add -A; git commit -qm all")
        assert repo.shell("echo x > new; git add new; git commit -qm new").returncode == 0
        assert repo.shell("echo y >> new; rm own; git checkout own").returncode == 0
        assert repo.receipts() == []

    def test_a_lifted_task_may_write(self, repo):
        repo.guard.env["NOCLOBBER_DIRTY_OVERRIDE"] = "t"
        repo.args = ("--task", "t")
        assert repo.shell("echo x > new").returncode == 0
        (receipt,) = repo.receipts("allow")
        assert Path(receipt["path"]) == repo.tree
