"""Claude Code's shell and its other tools are of one session."""

from __future__ import annotations

import subprocess

OLD = "".join(f"line {number} of the old text\n" for number in range(1, 413))


def test_a_sub_agent_may_write_anew_what_its_shell_wrote(claude, shell, guard):
    assert shell(claude, "seq 100 > made").returncode == 0
    assert claude.write(guard.tree / "mine", "the agent's own\n") == ""
    claude.agent = "a7"
    assert claude.may_write(guard.tree / "made") == ""
    assert claude.may_write(guard.tree / "mine")  # its parent's


def test_bash_and_the_read_tool_share_one_ledger(claude, page, shell):
    claude.read(page, 1, 40)
    done = shell(claude, f"cat > {page} <<'X'\nstub\nX")
    assert done.returncode != 0 and "was shown" in done.stderr and page.read_text() == OLD
    assert "(40 lines) of it" in done.stderr
    assert shell(claude, f"sed -n '41,$p' {page}").returncode == 0
    assert shell(claude, f"cat > {page} <<'X'\nstub\nX").returncode == 0
    assert page.read_text() == "stub\n"


def test_what_bash_showed_counts_for_the_write_tool(claude, page, shell):
    assert shell(claude, f"head -n 300 {page}").stdout == "".join(OLD.splitlines(True)[:300])
    assert "(300 lines) of it" in claude.may_write(page)
    shell(claude, f"cat -n {page} | tail -n 112; exit 3")
    assert claude.may_write(page) == ""


def test_what_bash_wrote_the_write_tool_may_replace(claude, shell, guard):
    assert shell(claude, "seq 1000 > made").returncode == 0
    assert claude.may_write(guard.tree / "made") == ""
    assert claude.edit(guard.tree / "made", "\n77\n", "\nseventy-seven\n") == ""
    assert claude.may_write(guard.tree / "made") == ""


def test_a_session_is_entered_by_a_shell_in_both_ways(claude, page, guard, tmp_path):
    """The variables are read from a file, or stand in the command itself."""
    variables = tmp_path / "variables.sh"
    claude.env = {"CLAUDE_ENV_FILE": str(variables)}
    claude.start()
    script = variables.read_text()
    inner = "echo $0 $1 $NOCLOBBER_SESSION; shopt -q login_shell && echo login; echo $LD_PRELOAD"
    for words in (["-c"], ["-l", "-c"]):
        for text in (f". {variables} && {inner}", script.strip() + "\n" + inner):
            done = subprocess.run(
                ["bash", *words, text, "zero", "one"],
                cwd=guard.tree, env=guard.env, capture_output=True, text=True,
            )  # fmt: skip
            first, *login, preload = done.stdout.splitlines()
            assert first == "zero one s1" and "libnoclobber" in preload
            assert bool(login) == (len(words) == 2)


def test_deleting_it_first_makes_it_no_less_of_a_replacement(claude, page, shell):
    shell(claude, f"head -n 40 {page}")
    assert shell(claude, f"rm {page}").returncode == 0 and not page.exists()
    assert "it stands there again" in claude.may_write(page)
    assert page.read_text() == OLD


def test_a_sub_agents_shell_writes_by_what_the_sub_agent_saw(claude, page, shell):
    shell(claude, "true")
    claude.agent = "a7"
    claude.read(page, 1, 40)
    write = f"cat > {page} <<'X'\nstub\nX"
    assert "(40 lines) of it" in shell(claude, write).stderr
    shell(claude, f"sed -n '41,$p' {page}")
    said = claude.event("SubagentStop", stop_hook_active=False, agent_transcript_path="/h/a7.jsonl")
    assert claude.said(said) == {}
    claude.agent = ""  # who saw none of it
    assert "was shown 0 bytes" in shell(claude, write).stderr
    claude.agent = "a7"  # it goes on
    assert shell(claude, f"tail -n 1 {page}").returncode == 0
    assert shell(claude, write).returncode == 0 and page.read_text() == "stub\n"


def test_a_program_of_the_shell_is_judged_by_what_the_shell_showed(claude, page, shell, guard):
    """A part was viewed by a command that read the file: a program that makes
    it anew, and read none of it, would lose the rest."""
    (guard.tree / "make.py").write_text("open('a.py', 'w').write('made anew\\n')\n")
    assert shell(claude, f"sed -n '1,200p' {page}").returncode == 0
    assert shell(claude, "python3 make.py").returncode != 0
    assert page.read_text() == OLD and guard.denied() == [str(page)]


def test_what_was_dirty_when_the_harness_began_is_guarded_from_its_shells_git(
    claude, page, shell, guard
):
    git = ["git", "-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        assert guard.bare(*git, *words).returncode == 0
    page.write_text(OLD + "the host's own\n")
    refused = shell(claude, "git checkout -- a.py")
    assert refused.returncode != 0 and "uncommitted work" in refused.stderr
    assert page.read_text() == OLD + "the host's own\n"
    assert shell(claude, "git status --short").stdout == " M a.py\n"
