"""What the texts around messages have in common: where a role header begins and ends in them.

    prompt of an answer   <|im_start|>assistant\\n<think>\\n
    header of a user      <|im_start|>user\\n
    role header           <|im_start|>assistant\\n

Texts only: `headers` finds those of a template.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MARKER_ENDS = ">]}\n:："  # a header ends with one of these where it is not there as a whole
MAX_PROMPT = 4096  # characters of a prompt that is understood
MAX_BEGUN = 256  # characters of a header that may be written apart from the rest
_WORD = re.compile(r"<[^<>\n]*>|\[[^\[\]\n]*\]|\w+|.", re.DOTALL)  # a marker is one word
_SCAFFOLD = re.compile("think|thought|reason|response|analysis|channel", re.IGNORECASE)
_CLOSED = re.compile(r"[<\[({|][^\n]+[<>\[\](){}|]")  # markers, as <end> or [e~[


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What stands before the text of an assistant's message."""

    role: str  # of its role alone
    prompt: str  # the generation prompt, which may hold more
    shared: int  # how much of it the header of a user has, too
    is_known: bool  # False: the template writes no prompt, and what it writes instead differs


UNKNOWN_HEADER = Header(role="", prompt="", shared=0, is_known=False)


def role_header(prompt: str, *of_users: str) -> str:
    """Return the shortest start of a prompt that ends most like the headers of users.

    It has more than what they have in common with it, so that it says whose turn it is, and the
    blanks that follow, which no model has to write.

    >>> role_header("<|im_start|>assistant\\n<think>\\n", "<|im_start|>user\\n")
    '<|im_start|>assistant\\n'
    >>> role_header("<|Assistant|><think>", "<|User|>"), role_header("ASSISTANT:", "USER: ")
    ('<|Assistant|>', 'ASSISTANT:')
    >>> role_header("ASSISTANT: <think>\\n", "USER: "), role_header("答：<think>", "问：")
    ('ASSISTANT: ', '答：')
    >>> role_header("<|start|>assistant", "<|start|>user<|message|>")
    '<|start|>assistant'
    >>> role_header("<|end|><|bot|>\\n", "<|me|>", "<|end|><|me|>")
    '<|end|><|bot|>\\n'
    """
    shared = num_shared(prompt, *of_users)
    starts = [
        prompt[:i]
        for i in range(shared + 1, len(prompt) + 1)
        if prompt[i - 1] in MARKER_ENDS or i == len(prompt)
    ]
    ends = [(s[::-1], with_blanks(prompt, len(s))[::-1]) for s in starts]
    common = [max(num_common(e, user[::-1]) for e in both for user in of_users) for both in ends]
    best = max(common, default=0)
    return with_blanks(prompt, len(starts[common.index(best)])) if best else prompt


def with_blanks(prompt: str, size: int) -> str:
    """Return so many characters of a prompt, and the blanks that follow."""
    rest = prompt[size:]
    return prompt[: size + len(rest) - len(rest.lstrip())]


def before_scaffold(rest: str) -> str:
    """Return what a prompt has between its first marker and where an answer thinks, or its response
    begins: it may be the role header, and the marker the end of the turn before.

    >>> before_scaffold("<|bot|><think>"), before_scaffold("<think>\\n"), before_scaffold("<bot>")
    ('<|bot|>', '', '<bot>')
    """
    words = _WORD.findall(rest)
    place = next((i for i, word in enumerate(words) if _SCAFFOLD.search(word)), len(words))
    is_marker = place == len(words) or words[place][0] in "<["
    return "".join(words[:place]) if is_marker else ""


def has_other_separator(prompt: str, first: str, later: str) -> bool:
    """Return whether users that are not the first have something before their header, with which
    the prompt does not begin: it may begin with something else of that kind.

    >>> has_other_separator("<|/me|><|bot|>", "<|me|>", "<|/bot|><|me|>")
    True
    >>> has_other_separator("<|end|><|bot|>", "<|me|>", "<|end|><|me|>")
    False
    """
    separator = later[: len(later) - len(common_end(first, later))].strip()
    return bool(separator) and not prompt.lstrip().startswith(separator)


def num_shared(prompt: str, *of_users: str) -> int:
    """Return how many characters of a prompt the header of a user has, too."""
    return max((num_found(prompt, user) for user in of_users), default=0)


def num_found(start: str, text: str) -> int:
    """Return how many characters of a start are somewhere in a text.

    >>> num_found("<|bot|>", "<|me|>"), num_found("ab", "xabx"), num_found("ab", "")
    (2, 2, 0)
    """
    return bisect_left(range(1, len(start) + 1), True, key=lambda size: start[:size] not in text)


def common_end(left: str, right: str) -> str:
    """Return what two texts end with in common, by whole words.

    >>> common_end("<s>[INST] ", "</s>[INST] "), common_end("A chat. USER: ", "\\nUSER: ")
    ('[INST] ', 'USER: ')
    """
    words = [_WORD.findall(text)[::-1] for text in (left, right)]
    count = num_common(*words)
    return "".join(words[0][:count][::-1])


def common_start(left: str, right: str) -> str:
    """Return what two texts begin with in common, by whole words.

    >>> common_start("<|end|><|user|>", "<|end|><|bot|>")
    '<|end|>'
    """
    words = [_WORD.findall(text) for text in (left, right)]
    return "".join(words[0][: num_common(*words)])


def begun_at_end(text: str, header: str) -> str:
    """Return the longest start of a header that a text ends with, by whole words.

    >>> begun_at_end("\\n### ", "### User:"), begun_at_end("<|end|>", "<|user|>")
    ('### ', '')
    """
    words = _WORD.findall(header)[:MAX_BEGUN]
    starts = ("".join(words[:count]) for count in range(len(words), 0, -1))
    return next((start for start in starts if text.endswith(start)), "")


def may_be_begun(tail: str, before: str, header: str) -> bool:
    """Return whether the end of a block may be half of the header that comes next: what stands
    `before` all headers ends alike and it is no marker, or the header begins within a word of it.

    >>> may_be_begun("\\n### ", "Be kind.\\n### ", "User: "), may_be_begun("<", "", "<user>")
    (True, True)
    >>> may_be_begun("<|end|>", "Be kind.<|end|>", "<|user|>"), may_be_begun("### ", "", "### User")
    (False, False)
    """
    end = tail.strip()
    is_before = bool(end) and before.rstrip().endswith(end) and not _CLOSED.fullmatch(end)
    header = header[:MAX_BEGUN]
    sizes = range(min(len(tail), len(header)), 0, -1)
    begun = next((header[:size] for size in sizes if tail.endswith(header[:size])), "")
    return is_before or len(begun.strip()) > len(begun_at_end(tail, header).strip())


def num_common(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Return how many characters or words two sequences begin with in common."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))


def find_header(prefix: str, header: Header) -> int:
    """Return where the role header in a prefix ends; -1 if it is not there.

    What separates it from the turn before may be there or not; if only its beginning is there, it
    ends with the last whole marker of that.
    """
    wanted = header.role.lstrip()
    if not wanted:
        return num_common(prefix, header.role)
    place = prefix.rfind(wanted)
    if place >= 0:
        return place + len(wanted)
    wanted = header.prompt.lstrip()
    most = num_found(wanted, prefix)
    length = next((n for n in range(most, 0, -1) if wanted[n - 1] in MARKER_ENDS), 0)
    length = min(most, len(with_blanks(wanted, length))) if length else 0
    blanks = len(header.prompt) - len(wanted)
    # What a user's header has, too, does not say whose turn it is.
    return prefix.rfind(wanted[:length]) + length if length + blanks > header.shared else -1
