"""Whether the excerpt that holds the answer is found, among a hundred times as much other text.

The files of a small shop stand between modules of the standard library, chosen with a fixed seed. Each
question has its answer in one place, which is known by a few words that stand nowhere else.
"""

from __future__ import annotations

import random
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from pace_local.excerpts import MAX_TOKENS, ExcerptIndex, cut, pick
from pace_local.files import read_text

SHOP = Path(__file__).parent / "data" / "excerpts"
BUDGET = 1_200
LEAST_FOUND = 0.95


@dataclass(frozen=True)
class Question:
    prompt: str
    answer: str
    """Words that stand in the right excerpt alone."""


NAMED = [
    Question("What is the value of `BASE_FEE`?", "BASE_FEE = 53"),
    Question("What does vat_for return for a country that is not listed?", "Rate of value added tax"),
    Question("How does `parse_order` treat empty lines?", "lines that start with a semicolon are skipped"),
    Question("When does Order.remind() give up?", "after the third one the order is cancelled"),
    Question("Which states may follow State.PACKED according to TRANSITIONS?", "State.PACKED: {State.SENT}"),
    Question("What is backoffMillis set to?", "backoffMillis = 750"),
    Question("Explain what transitDays gives for a zone overseas.", "return 14;"),
    Question("How many pieces does NeedsReorder ask for?", "NeedsReorder(sku string)"),
    Question("What does `Claim::payout` pay for an opened package?", "self.cents * RESTOCKING_PERCENT"),
    Question("What is RETURN_WINDOW in seconds?", "from_secs(30 * 24 * 3600)"),
    Question("Which month does FISCAL_YEAR_START_MONTH stand for?", "FISCAL_YEAR_START_MONTH = 4"),
    Question("What does scale_read return when the scale is overloaded?", "-2 if the scale is overloaded"),
    Question("How is `frame_checksum` computed?", "modulo 251"),
    Question("What may one call of grantPoints credit at most?", "10,000 points"),
    Question("How long is EXPIRY_GRACE_DAYS?", "is 21: for so long"),
    Question("What is `pool_size`?", "pool_size = 18"),
    Question("How often does wait_until_healthy try?", "exit 75"),
]

PLAIN = [
    Question("What discount do gold customers get?", "gold tier get 15 percent"),
    Question("From which subtotal on is shipping free?", "FREE_SHIPPING_ABOVE = 7_500"),
    Question("How are halves rounded?", "halves to the even neighbour"),
    Question("How many lines may an order have?", "MAX_LINES = 120"),
    Question(
        "What happens when the quantity of an article is missing?", "a missing quantity means one piece"
    ),
    Question("Can a sent order still be cancelled?", "can no longer be cancelled"),
    Question("How long is a label valid before it lapses?", "not fetched within 48 hours"),
    Question("For how much are fragile parcels insured?", "insured for twice the declared worth"),
    Question("At what hour are parcels picked up?", "PICKUP_HOUR = 16"),
    Question("When does a hold on reserved pieces end?", "ends after 20 minutes"),
    Question("Below which stock is a supplier asked for more?", "ReorderPoint = 24"),
    Question("When is a shelf frozen for a recount?", "above five percent freeze it"),
    Question("How much more is a voucher worth than money?", "one tenth more than the money"),
    Question("Which refund claims must be reviewed by a person?", "above 500 euros"),
    Question("After how many days are the books locked?", "LOCK_AFTER_DAYS = 10"),
    Question("How many points does a referred friend bring?", "gets 800 points"),
    Question("When do unused loyalty points expire?", "lapse after 18 months"),
    Question("How many points a year does the gold tier need?", "9,000"),
    Question("At what baud rate does the scale talk?", "SCALE_BAUD 4800"),
    Question("During which quiet hours is no mail sent?", "quiet_hours"),
    Question("After how many idle minutes does a session end?", "idle_minutes = 35"),
    Question("How many old releases are kept on a server?", "KEEP_RELEASES=5"),
]

USED = [
    Question("What does shipping_fee charge for an express order, in cents?", "BASE_FEE = 53"),
    Question("How heavy may a parcel be that `CarrierClient.book` accepts?", "MAX_PARCEL_GRAMS = 31500"),
    Question("What share does `payout` keep for opened packages?", "RESTOCKING_PERCENT: u64 = 12"),
    Question("How old may an entry be that Ledger.post accepts?", "LOCK_AFTER_DAYS = 10"),
    Question("How many releases does remove_old_releases leave?", "KEEP_RELEASES=5"),
    Question("Up to how many grams does scale_read call a reading settled?", "SETTLE_GRAMS 3"),
]

FILES = [
    Question("In settings.toml, what is the port?", "port = 8417"),
    Question("What does loyalty.md say about birthdays?", "On a birthday it is double"),
    Question("What does the tare function in scale.c do?", "tare_offset += now->grams"),
    Question("Which reasons for a refund does refunds.rs know?", "WrongItem,"),
    Question("Which reductions are there in data/excerpts/pricing.py?", "gold tier get 15 percent"),
]

QUOTED = [
    Question('Which memo is "storno" for?', 'with the memo "storno"'),
    Question("What raises ORD-422?", "Raises ORD-422"),
    Question("Why do I see LEDGER_LOCKED?", "LEDGER_LOCKED: "),
    Question("When may --skip-migrations be used?", "only for a roll-back"),
    Question("Where does the cookie 'shop_sid' come from?", "shop_sid"),
]

QUESTIONS = NAMED + PLAIN + USED + FILES + QUOTED


def count_tokens(text: str) -> int:
    return len(text) // 4


@pytest.fixture(scope="module")
def index() -> ExcerptIndex:
    """The shop's files, each between a few modules of the standard library."""
    chosen = random.Random(20)
    library = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    modules = chosen.sample([path for path in library if path.stat().st_size < 60_000], 60)
    files = [*modules, *sorted(SHOP.iterdir())]
    chosen.shuffle(files)
    return ExcerptIndex(
        [excerpt for path in files for excerpt in cut(read_text(path), MAX_TOKENS, count_tokens)]
    )


def test_answers_are_told_by_words_that_stand_in_one_excerpt(index: ExcerptIndex) -> None:
    for question in QUESTIONS:
        places = [excerpt.label for excerpt in index.excerpts if question.answer in excerpt.text]
        assert len(places) == 1, (question, places)


def test_the_right_excerpt_is_among_the_picks(index: ExcerptIndex) -> None:
    assert len(QUESTIONS) >= 40
    size = sum(count_tokens(excerpt.text) for excerpt in index.excerpts)
    assert size > 100 * BUDGET
    misses = []
    for question in QUESTIONS:
        picks = pick(question.prompt, index, BUDGET, count_tokens)
        assert sum(found.tokens for found in picks) <= BUDGET
        if not any(question.answer in found.excerpt.text for found in picks):
            taken = [f"{found.excerpt.label.rsplit('/')[-1]} ({found.reason})" for found in picks]
            misses.append(f"{question.prompt} -> {question.answer!r}; picked {', '.join(taken)}")
    share = 1 - len(misses) / len(QUESTIONS)
    print(f"\n{len(QUESTIONS)} questions over {size} tokens in {len(index)} excerpts: {share:.1%} found")
    print(*misses, sep="\n")
    assert share >= LEAST_FOUND, "\n".join(misses)
