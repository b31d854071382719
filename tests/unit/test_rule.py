"""The rule's table: one test for each row, and what no row may do."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noclobber import rule
from noclobber.rule import Kind, Ruling, Verdict

ALLOW, DENY, SNAPSHOT = Verdict.ALLOW, Verdict.DENY, Verdict.SNAPSHOT


@dataclass(frozen=True)
class Facts:
    """A text under a root that a program would replace, of which nothing is
    known and nothing was viewed."""

    replaceable: bool = True
    protected: bool = True
    held: bool = False
    restamped: bool = False
    known: bool = False
    copied: bool = False
    transform: bool = False
    cut: bool = False
    override: bool = False
    text: bool = True
    output: bool = False
    partial: bool = False
    kind: Kind = Kind.DIRECT
    viewed: bool = False
    git_holds: bool = False
    programs_denied: bool = True


def decide(**facts):
    ruling = rule.decide(Facts(**facts))
    return ruling.verdict, ruling.row


WORST = {"partial": True, "viewed": True, "kind": Kind.VOICED}


def test_row_1_what_is_not_there_or_empty_may_be_replaced():
    assert decide(replaceable=False, **WORST) == (ALLOW, 1)


def test_row_2_what_is_not_protected_may_be_replaced():
    assert decide(protected=False, **WORST) == (ALLOW, 2)


def test_row_3_what_the_session_holds_may_be_replaced():
    assert decide(held=True, **WORST) == (ALLOW, 3)


def test_row_3_an_own_file_whose_mode_changed_is_kept_first():
    assert decide(restamped=True, **WORST) == (SNAPSHOT, 3)


def test_row_4_what_was_shown_and_written_together_may_be_replaced():
    assert decide(known=True, **WORST) == (ALLOW, 4)
    assert decide(known=True, restamped=True) == (ALLOW, 4)


def test_row_5_a_copy_stands_elsewhere():
    assert decide(copied=True, **WORST) == (SNAPSHOT, 5)


def test_row_6_a_transform():
    assert decide(transform=True, viewed=True, kind=Kind.VOICED) == (SNAPSHOT, 6)


def test_row_6_is_not_for_a_cut_of_what_the_agents_own_process_read():
    assert decide(transform=True, cut=True, kind=Kind.VOICED) == (DENY, 9)
    assert decide(transform=True, cut=True, kind=Kind.VOICED, known=True) == (ALLOW, 4)
    assert decide(transform=True, cut=True, override=True) == (SNAPSHOT, 7)


def test_row_7_an_override_is_kept_even_where_git_holds_it():
    assert decide(override=True, **WORST) == (SNAPSHOT, 7)
    assert decide(override=True, git_holds=True, **WORST) == (SNAPSHOT, 7)


@pytest.mark.parametrize("kind", [Kind.VOICED, Kind.DIRECT, Kind.UNKNOWN])
def test_row_8_a_program_that_works_from_a_part_is_refused(kind):
    assert decide(partial=True, kind=kind) == (DENY, 8)


def test_row_8_is_not_for_the_driven_nor_where_git_holds_it():
    assert decide(partial=True, kind=Kind.DRIVEN) == (SNAPSHOT, 11)
    assert decide(partial=True, git_holds=True) == (ALLOW, 11)


@pytest.mark.parametrize("git_holds", [False, True])
@pytest.mark.parametrize("viewed", [False, True])
def test_row_9_the_agents_own_text_over_what_it_does_not_know_is_refused(git_holds, viewed):
    assert decide(kind=Kind.VOICED, git_holds=git_holds, viewed=viewed) == (DENY, 9)


@pytest.mark.parametrize("kind", [Kind.DIRECT, Kind.UNKNOWN])
def test_row_10_a_program_over_a_viewed_file_is_refused(kind):
    assert decide(kind=kind, viewed=True) == (DENY, 10)


def test_row_10_gives_way_to_git_and_to_the_configuration():
    assert decide(viewed=True, git_holds=True) == (ALLOW, 11)
    assert decide(viewed=True, programs_denied=False) == (SNAPSHOT, 11)


def test_row_11_a_program_makes_its_output_anew():
    assert decide() == (SNAPSHOT, 11)
    assert decide(kind=Kind.DRIVEN, viewed=True, partial=True) == (SNAPSHOT, 11)


def test_rows_8_to_10_speak_of_text():
    assert decide(text=False, **WORST) == (SNAPSHOT, 11)


def test_outputs_by_convention_get_a_snapshot_at_most():
    assert decide(output=True, **WORST) == (SNAPSHOT, 11)


@pytest.mark.parametrize("row", [5, 6, 11])
def test_a_snapshot_is_left_out_where_git_holds_the_bytes(row):
    facts = {5: {"copied": True}, 6: {"transform": True}, 11: {}}[row]
    assert decide(git_holds=True, **facts) == (ALLOW, row)


def test_a_deletion_is_never_refused_and_kept_unless_it_is_the_sessions_own():
    facts = Facts(**WORST)
    assert rule.decide_deletion(facts) == Ruling(SNAPSHOT, 11)
    assert rule.decide_deletion(replace(facts, held=True)) == Ruling(ALLOW, 3)
    assert rule.decide_deletion(replace(facts, git_holds=True)) == Ruling(ALLOW, 11)
    assert rule.decide_deletion(replace(facts, protected=False)) == Ruling(ALLOW, 2)


def test_an_edit_in_place_is_never_refused_and_kept_where_text_is_not_known():
    facts = Facts(**WORST)
    assert rule.decide_update(facts) == Ruling(SNAPSHOT, 11)
    assert rule.decide_update(replace(facts, known=True)) == Ruling(ALLOW, 4)
    assert rule.decide_update(replace(facts, kind=Kind.DRIVEN)) == Ruling(ALLOW, 11)
    assert rule.decide_update(replace(facts, text=False)) == Ruling(ALLOW, 11)


BOOLS = {
    name: st.booleans()
    for name, field in Facts.__dataclass_fields__.items()
    if field.type in (bool, "bool")
}
ANY = st.builds(Facts, **BOOLS, kind=st.sampled_from(Kind))


@given(ANY)
def test_knowing_more_never_makes_a_refusal(facts):
    """Evidence only opens: what passes goes on to pass with more of it."""
    if rule.decide(facts).verdict is not DENY:
        for more in ("held", "known", "copied", "override"):
            assert rule.decide(replace(facts, **{more: True})).verdict is not DENY


@given(ANY)
def test_a_blind_agent_never_gets_through_unkept(facts):
    """Voiced, text, protected and unknown: refused, or the content is kept."""
    blind = replace(
        facts, replaceable=True, protected=True, held=False, known=False,
        kind=Kind.VOICED, text=True, output=False, git_holds=False,
    )  # fmt: skip
    assert rule.decide(blind).verdict is not ALLOW


@given(ANY)
def test_deletions_and_edits_are_never_refused(facts):
    assert rule.decide_deletion(facts).verdict is not DENY
    assert rule.decide_update(facts).verdict is not DENY


class Counting:
    """Facts that note which of them were asked for."""

    def __init__(self, facts):
        self.facts, self.asked = facts, []

    def __getattr__(self, name):
        self.asked.append(name)
        return getattr(self.facts, name)


def test_a_row_that_decides_early_pays_for_nothing_below_it():
    facts = Counting(Facts(held=True))
    rule.decide(facts)
    assert set(facts.asked) == {"replaceable", "protected", "held"}
