"""The tiny models' tokenizer: byte-level BPE that can spell any text, or the same as SentencePiece has it."""

from __future__ import annotations

import string
from dataclasses import dataclass
from functools import cache

END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"

CHAT_TEMPLATE = """\
{%- if not messages or messages[0]['role'] != 'system' %}
    {{- '<|im_start|>system\\nYou are a tiny model that answers at random.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
"""ChatML, which puts a default system prompt first when the conversation brings none."""

# Each pair joins two pieces that earlier lines have made, so that a few words of prose and code
# become one token, some become two, and most stay letters. "_" stands for a space.
MERGES = """
_ t|h e|i n|r e|o n|_ a|e r|_t he|a t|o r|_ s|e n|_ i|_i n|_ c|_ f|_f or|_ d|e f|_d ef|d ef
re t|u r|ret ur|retur n|_ return|_ =|_ o|_o r|_ m|s e|se l|sel f|in g|_a n|_an d|l l
""".replace("\n", "|").strip("|")


@dataclass(frozen=True)
class Vocab:
    """Token texts in the file's spelling, merges in order, and the ids of the special tokens."""

    tokens: tuple[str, ...]
    merges: tuple[str, ...]
    n_bytes: int
    end_of_text: int
    turn_start: int
    turn_end: int

    @property
    def special(self) -> tuple[int, int, int]:
        """Ids of the three control tokens."""
        return self.end_of_text, self.turn_start, self.turn_end

    def readable(self) -> tuple[int, ...]:
        """Ids of the tokens that are printable ASCII, a space or a line break."""
        printable = string.digits + string.ascii_letters + string.punctuation + " \n"
        plain = {byte_letters()[ord(char)] for char in printable}
        n_words = len(self.tokens) - len(self.special)
        return tuple(i for i in range(n_words) if set(self.tokens[i]) <= plain)

    def spm_tokens(self) -> tuple[str, ...]:
        """The same tokens in the spelling of SentencePiece, which has no byte for the space."""
        single = [f"<0x{byte:02X}>" for byte in range(self.n_bytes)]
        single[ord(" ")] = "\u2581"
        space = byte_letters()[ord(" ")]
        return (*single, *(token.replace(space, "\u2581") for token in self.tokens[self.n_bytes :]))


@cache
def byte_letters() -> tuple[str, ...]:
    """The visible letter that stands for each byte value in a GPT-2 vocabulary.

    Printable Latin-1 bytes stand for themselves; the others take the code points from 256 on, in
    order of their value.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(256, 512))
    return tuple(chr(value) if value in visible else chr(next(spare)) for value in range(256))


@cache
def tiny_vocab() -> Vocab:
    """The vocabulary of every tiny model: 256 bytes, one token per merge, three special tokens."""
    letters = byte_letters()
    merges = tuple(line.replace("_", letters[0x20]) for line in MERGES.split("|"))
    words = (*letters, *(merge.replace(" ", "") for merge in merges))
    return Vocab(
        tokens=(*words, END_OF_TEXT, TURN_START, TURN_END),
        merges=merges,
        n_bytes=len(letters),
        end_of_text=len(words),
        turn_start=len(words) + 1,
        turn_end=len(words) + 2,
    )
