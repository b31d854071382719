"""What the host had under way is not git's to throw away: which commands are
refused, for which files, and which run as ever."""

from __future__ import annotations

import json

import pytest

F, S, G, DRAFT = "f", "s", "sub/g", "draft.txt"
TRACKED = {F, S, G}

# The command, and the host's files that it would destroy.
DESTROYS = {
    "git checkout -- f": {F},
    "git checkout f": {F},
    "git checkout .": {F, G},
    "git checkout HEAD -- .": TRACKED,
    "git checkout HEAD s": {S},
    "git checkout side -- draft.txt": {DRAFT},
    "git checkout -f": TRACKED,
    "git checkout -qf side": TRACKED | {DRAFT},
    "git checkout --force main": TRACKED,
    "yes | git checkout -p": {F, G},
    "git switch -f side": TRACKED | {DRAFT},
    "git switch --discard-changes main": TRACKED,
    "git restore f": {F},
    "git restore :/": {F, G},
    "git restore -s HEAD -- s": {S},
    "git restore --source=HEAD --staged --worktree .": TRACKED,
    "git restore -SW f": {F},
    "git reset --hard": TRACKED,
    "git reset -q --hard HEAD": TRACKED,
    "git reset --har": TRACKED,
    "git reset --hard side": TRACKED | {DRAFT},
    "git reset --merge": {S},
    "git stash": TRACKED,
    "git stash -u": TRACKED | {DRAFT},
    "git stash push -q -m wip -- f": {F},
    "git stash save wip": TRACKED,
    "git stash --keep-index": {F, G},
    "git stash push --staged": {S},
    "git clean -f": {DRAFT},
    "git clean -xfdq": {DRAFT},
    "git clean -ff -- draft.txt": {DRAFT},
    "git -c clean.requireForce=false clean": {DRAFT},
    "git rm -f f": {F},
    "git rm -rf .": TRACKED,
    "git mv -f own f": {F},
    "git rebase --autostash side": TRACKED,
    "git -c rebase.autoStash=true pull --rebase . side": TRACKED,
    "git merge --autostash side": TRACKED,
    "git checkout-index -fa": {F, G},
    "git read-tree -u --reset HEAD": TRACKED,
    # the same, spelled otherwise
    'git -C "$PWD" reset --hard': TRACKED,
    "cd sub && git checkout -- g": {G},
    "cd sub && git checkout -- ..": {F, G},
    "cd .git && git --work-tree=.. --git-dir=. checkout -f": TRACKED,
    "GIT_DIR=$PWD/.git GIT_WORK_TREE=$PWD git -C / checkout -f": TRACKED,
    "git config alias.oops 'reset --hard'; git oops": TRACKED,
    "git -c alias.a=b -c alias.b='-c x.y=z restore' a f": {F},
    "git config alias.sh '!git reset --hard'; git sh": TRACKED,
    '"$(git --exec-path)/git-stash"': TRACKED,
    'exec "$(command -v git)" stash': TRACKED,
    'ln -s "$(command -v git)" ../g; trap "rm ../g" EXIT; ../g reset --hard': TRACKED,
    "env -i PATH=\"$PATH\" git reset --hard": TRACKED,
    "echo f | xargs git checkout --": {F},
    "python3 -c \"import os; os.system('git checkout f')\"": {F},
    "python3 -c \"import subprocess as s; s.run(['git', 'restore', 'f'])\"": {F},
    "python3 -c \"import os; os.execvp('git', ['git', 'reset', '--hard'])\"": TRACKED,
    "python3 -c \"import os; os.waitpid(os.posix_spawnp('git', ['git', 'stash'], os.environ), 0)\"":
        TRACKED,
    "perl -e 'system(\"git\", \"checkout\", \"--\", \"f\")'": {F},
    "printf f | git checkout --pathspec-from-file=-": {F, G},
}  # fmt: skip


@pytest.mark.parametrize("command", DESTROYS)
def test_what_would_destroy_the_hosts_work_is_refused(repo, command):
    before, index = repo.content(), repo.bare("git diff --cached").stdout
    done = repo.shell(command)
    assert repo.content() == before, done.stderr
    assert repo.bare("git diff --cached").stdout == index
    assert repo.bare("git stash list").stdout == ""
    assert set(repo.refused()) == DESTROYS[command]
    assert "noclobber: refused: git" in done.stderr


PASSES = [
    "git status -s; git diff; git log -1; git show --stat; git stash list; git blame f",
    "git branch -a; git remote -v; git tag; git config user.name; git rev-parse HEAD",
    "git reset -q",
    "git reset --soft HEAD",
    "git reset -q -- f",
    "git reset --keep HEAD",
    "git checkout -b new",
    "git checkout -q side -- other",
    "git switch -c new",
    "git checkout own",
    "git restore own",
    "git restore --staged s",
    "git stash show",
    "git clean -n",
    "git clean -fd -e draft.txt",
    "git rm -n -f f",
    "git rm --cached -q s",
    "git mv own renamed",
    "git mv f moved",
    "git commit -qam all",
    "git commit -qm staged",
    "git add -A; git commit -qm all; git reset -q --hard; git clean -fdq",
    "git worktree add -q ../wt side; git -C ../wt reset -q --hard; git worktree remove -f ../wt",
    "git fetch -q . side:refs/remotes/x/side",
    "git gc -q",
    "git tag x; git branch y; git tag -d x",
    "git merge -q side",
    "git cherry-pick side",
    "git rebase side",
    "git pull -q . side",
    "git -C sub ls-files; git --no-pager diff --cached; git ls-files -o",
    "seq 2999 > p; diff -u f p | git apply",
    "git init -q ../elsewhere; cd ../elsewhere; seq 9 > a; git add .; git commit -qm a; echo > a;"
    " git checkout -q a; git stash -q; git reset -q --hard; rm -rf ../elsewhere",
]


@pytest.mark.parametrize("command", PASSES)
def test_what_destroys_nothing_runs_as_without_the_guard(repo, command):
    repo.bare("cp -a . ../copy")
    bare = repo.guard.bare("bash", "-c", command, cwd=repo.tree.parent / "copy")
    done = repo.shell(command)
    assert (done.returncode, repo.refused()) == (bare.returncode, []), done.stderr
    repo.bare(
        "git -C ../copy status --porcelain > ../a; git status --porcelain > ../b; cmp ../a ../b;"
        "diff -r --exclude=.git . ../copy; rm -r ../copy ../a ../b"
    )


def test_receipts_say_how_much_was_seen_and_who_asked(repo):
    done = repo.shell("head -n 100 f; git checkout -- f sub/g")
    assert done.returncode == 126
    first, second = sorted(repo.receipts(), key=lambda r: r["path"])
    assert first["argv"] == ["git", "checkout", "--", "f", "sub/g"]
    assert first["exe"].endswith("/git")
    assert first["total_bytes"] == (repo.tree / "f").stat().st_size
    assert 0 < first["seen_bytes"] < first["total_bytes"]
    assert (
        0 <= second["seen_bytes"] <= second["total_bytes"] == (repo.tree / "sub/g").stat().st_size
    )


def test_a_refused_git_ends_like_a_refused_exec(repo):
    text = (
        "import os, sys\n"
        "try: os.execvp('git', ['git', 'reset', '--hard'])\n"
        "except OSError as error: sys.exit(error.errno)\n"
    )
    done = repo.guard.run("python3", "-c", text, session=repo.session)
    assert done.returncode == 1  # EPERM
    assert str(repo.tree / "f") in done.stderr


def test_what_the_session_made_is_its_own(repo):
    done = repo.shell(
        "echo mine > mine.txt; sed -i s/7/seven/ own; git checkout -q own; git clean -fq mine.txt;"
        "echo new > new; git add new; git rm -qf new; [ ! -e mine.txt ] && [ ! -e new ]"
    )
    assert done.returncode == 0, done.stderr
    assert repo.refused() == []


def test_the_first_command_does_not_make_its_own_edits_the_hosts(clean):
    done = clean.shell(
        "for i in $(seq 300); do echo x > n$i; done; echo >> f; git checkout -q f;"
        "git stash -qu; git stash drop -q; git reset -q --hard; ls | wc -l"
    )
    assert done.returncode == 0, done.stderr
    assert clean.refused() == []


def test_what_was_committed_is_not_under_way_any_more(repo):
    assert repo.shell("git add -A; git commit -qm all").returncode == 0
    done = repo.shell("sed -i s/7/seven/ f; git checkout -q f; git stash -q; git reset -q --hard")
    assert (done.returncode, repo.refused()) == (0, []), done.stderr


def test_the_hosts_stash_is_not_dropped(clean):
    clean.bare("seq 9 > f; git stash -q")
    for command in ("git stash drop", "git stash clear", "git stash drop stash@{0}"):
        assert clean.shell(command).returncode != 0
    done = clean.shell(
        "echo 8 >> own; git stash -q; git stash drop -q; echo 7 >> own; git stash -q"
    )
    assert done.returncode == 0, done.stderr
    assert clean.shell("git stash drop -q 0").returncode == 0
    assert clean.bare("git stash list").stdout.count("\n") == 1
    assert clean.refused() == ["."]


def test_work_trees_inside_of_each_other_are_looked_at_too(repo):
    repo.bare(
        "git init -q -b main ../lib; cd ../lib; seq 9 > l; git add .; git commit -qm l; cd ../tree;"
        "git -c protocol.file.allow=always submodule --quiet add ../lib lib; git add -A;"
        "git commit -qm lib; git worktree add -q wt side; seq 900 > lib/l; seq 800 > wt/other"
    )
    before = repo.content()
    for command in (
        "git -C lib checkout -- l", "git submodule foreach --quiet git reset --hard",
        "git submodule update --force", "git submodule deinit -f lib", "cd wt; git restore .",
        "git worktree remove -f wt", "git reset --hard --recurse-submodules",
        "git submodule foreach 'git stash'",
    ):  # fmt: skip
        done = repo.shell(command)
        assert repo.content() == before, command + done.stderr
        assert "noclobber: refused" in done.stderr, command
    assert repo.refused() == ["lib/l", "wt/other"]
    repo.bare("git worktree remove -f wt; rm -r ../lib")


@pytest.mark.parametrize("format", ["--ref-format=reftable", "--object-format=sha256"])
def test_in_other_formats_of_repositories(repo, format):
    if repo.guard.bare("git", "init", "-q", format, "../probe").returncode:
        pytest.skip(f"this git has no {format}")
    repo.bare(f"rm -rf .git ../probe; git init -q -b main {format}; git add own; git add f;"
              "git commit -qm one; seq 9 > f")  # fmt: skip
    before = repo.content()
    for command in ("git checkout f", "git reset --hard", "git stash -u", "git clean -fd"):
        assert repo.shell(command).returncode != 0
    assert repo.content() == before
    assert repo.refused() == ["draft.txt", "f", "s", "sub/g"]


def test_a_git_that_nobody_asked_about_cannot_have_the_files_themselves(repo):
    before = repo.content()
    for command in ("git checkout f", "git reset --hard", "git stash", "git clean -fd"):
        repo.shell(f"env -u NOCLOBBER_DIRTY bash -c '{command}'")
        assert {n: repo.content().get(n) for n in before} == before, command
    assert F in repo.refused()


TOOL = """
import os, sys
open(".git/index", "rb").read()
for name in sys.argv[2:]:
    {"write": lambda: open(name, "w").close(), "unlink": lambda: os.unlink(name),
     "rename": lambda: (open("new", "w").write("x"), os.rename("new", name))}[sys.argv[1]]()
"""


@pytest.mark.parametrize("how", ["write", "unlink", "rename"])
def test_nor_can_a_library_that_does_as_git_does(repo, how):
    (repo.tree.parent / "tool.py").write_text(TOOL)
    before = repo.content()
    assert repo.shell(f"python3 ../tool.py {how} own").returncode == 0
    for name in (F, G, DRAFT):
        assert repo.shell(f"python3 ../tool.py {how} {name}").returncode != 0
    assert {n: repo.content()[n] for n in (F, G, DRAFT)} == {n: before[n] for n in (F, G, DRAFT)}
    assert repo.refused() == sorted([F, G, DRAFT])


def test_the_agent_may_delete_and_edit_what_is_the_hosts(repo):
    done = repo.shell("rm draft.txt; sed -i s/7/seven/ f; cat sub/g")
    assert done.returncode == 0, done.stderr
    assert repo.shell("seq 700 | sort > sub/g").returncode == 0
    assert repo.refused() == []
    assert [r["op"] for r in repo.receipts("snapshot")][:1] == ["delete"]


def test_ignore_guards_nothing(repo):
    (repo.tree / "noclobber.toml").write_text('on_dirty = "ignore"\n')
    assert repo.shell("git reset -q --hard; git clean -fdq").returncode == 0
    assert repo.refused() == []


def test_what_the_agent_configures_later_changes_nothing(repo):
    repo.shell("echo 'on_dirty = \"ignore\"' > noclobber.toml; sleep 1.1")
    assert repo.shell("git checkout f").returncode != 0
    assert repo.refused() == ["f"]


def test_a_session_goes_on_after_the_daemon_was_killed(repo):
    repo.shell("true")
    repo.bare("noclobber daemon stop")
    assert repo.shell("git checkout f").returncode != 0
    assert repo.refused() == ["f"]


class TestOverride:
    def test_for_a_task_of_the_hosts(self, repo):
        repo.guard.env["NOCLOBBER_DIRTY_OVERRIDE"] = "tidy,release"
        repo.args = ("--task", "other")
        assert repo.shell("git checkout f").returncode != 0
        repo.args = ("--task", "release")
        assert repo.shell("git checkout -q f").returncode == 0
        (lifted,) = repo.receipts("allow")
        assert lifted["path"].endswith("/f") and "release" in lifted["reason"]

    def test_for_all(self, repo):
        repo.guard.env["NOCLOBBER_DIRTY_OVERRIDE"] = "*"
        assert repo.shell("git stash -qu").returncode == 0
        assert len(repo.receipts("allow")) == 4

    def test_not_from_within(self, repo):
        for command in (
            "export NOCLOBBER_DIRTY_OVERRIDE='*'; git checkout f",
            "NOCLOBBER_DIRTY_OVERRIDE='*' noclobber-exec -- git checkout f",
            "NOCLOBBER_DIRTY_OVERRIDE='*' noclobber run --session new -- git checkout f",
        ):
            assert repo.shell(command).returncode != 0, command
        assert repo.content()["f"].startswith(b"1\n2\n3\n")
        assert len(repo.content()["f"]) > 10_000

    def test_of_an_agent_holds_for_its_commands(self, repo):
        repo.guard.env["NOCLOBBER_DIRTY_OVERRIDE"] = "t"
        done = repo.guard.cli("run", "--task", "t", "--session", repo.session, "--root",
                              str(repo.tree), "--", "noclobber-exec", "--", "git", "checkout", "-q",
                              "f")  # fmt: skip
        assert done.returncode == 0, done.stderr

    def test_a_person_allows_one_file(self, repo):
        repo.shell("true")
        repo.bare("noclobber allow f --reason because")
        assert repo.shell("git checkout -q f").returncode == 0
        assert len(repo.receipts("allow")) == 1
        assert repo.shell("git checkout -q s").returncode == 0
        assert repo.shell("git checkout HEAD -- s").returncode != 0


def test_status_says_how_much_is_the_hosts(repo):
    repo.shell("true")
    found = json.loads(repo.guard.cli("status", "--json").stdout)["sessions"]
    (session,) = [each for each in found if each["session"] == repo.session]
    assert session["dirty"] == 4
