"""Put marks into a template, which tell what it is at while it writes: zero characters each.

    {% for m in messages %}{{ m.content }}{% endfor %}
    begin  enter 0  hello  enter 1  hi  end            a message is known by its number

A loop over numbers has no message to enter; there `{% set m = messages[i] %}` is marked. `x in y`
becomes a call that tells the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from dataprep.pipeline.documents.chat.bounds import count_step
from dataprep.pipeline.documents.chat.loops import FIRST_MEDIUM
from dataprep.pipeline.documents.chat.origins import Mark, Part
from dataprep.pipeline.documents.chat.tape import Tape
from dataprep.pipeline.documents.chat.texts import make

MARKS = "_dataprep_"
BEGIN, ENTER, SET, END, STEP, HELD, LENGTH = (
    f"{MARKS}{name}" for name in ("begin", "enter", "set", "end", "step", "held", "length")
)
TRAIN, STOP = "train", "stop"


class ChatMessage(dict[str, Any]):
    """A message of a conversation, which knows its place in it."""

    __slots__ = ("_number",)
    _number: int

    def __init__(self, number: int, values: dict[str, Any]) -> None:
        super().__init__(values)
        self._number = number


class MediaPart(dict[str, Any]):
    """A part of a message that is no text, but the n-th medium of the conversation."""

    __slots__ = ("_number",)
    _number: int

    def __init__(self, number: int, values: dict[str, Any]) -> None:
        super().__init__(values)
        self._number = number


def number_of(value: Any) -> int:
    """Return which message or medium a value is: 0, 1, … or -2, -3, …; -1: neither."""
    if isinstance(value, MediaPart):
        return FIRST_MEDIUM - value._number
    return value._number if isinstance(value, ChatMessage) else -1


def mark_functions(tape: Callable[[], Tape]) -> dict[str, Callable[..., str]]:
    """Return the functions that an instrumented template calls, by name."""

    def mark(kind: str, value: int) -> str:
        count_step()
        tape().loops.move(kind, value)
        return make(tape(), [Part("", Mark(kind, value))])

    return {
        BEGIN: lambda loop: mark("begin", loop),
        ENTER: lambda item=None: mark("enter", number_of(item)),
        SET: lambda value: mark("set", number_of(value)),
        END: lambda loop: mark("end", loop),
        STEP: _step,
    }


def _step() -> str:
    count_step()
    return ""


def marked(template: nodes.Template) -> nodes.Template:
    changed: nodes.Template = _Marker().visit(template)
    return changed


def counted(template: nodes.Template) -> nodes.Template:
    """Return the template so that it counts the turns of its loops and the lists that it makes,
    and does nothing else."""
    changed: nodes.Template = _Counter().visit(template)
    return changed


class _Lists(NodeTransformer):
    """Puts lists and objects that hold more than constants through the filter HELD."""

    def visit_List(self, node: nodes.List) -> nodes.Node:
        self.generic_visit(node)
        return _held(node, node.items)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        return _held(node, node.items) if node.ctx == "load" else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return _held(node, [pair.value for pair in node.items])


def _held(node: nodes.Expr, items: Sequence[nodes.Expr]) -> nodes.Expr:
    if all(isinstance(item, nodes.Const) for item in items):
        return node
    return _at(nodes.Filter(node, HELD, [], [], None, None), node.lineno)


class _Counter(_Lists):
    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _call(node, STEP, []))
        return node


class _Marker(_Lists):
    def __init__(self) -> None:
        self._loops = 0

    def visit_For(self, node: nodes.For) -> list[nodes.Node]:
        number = self._loops = self._loops + 1
        self.generic_visit(node)
        target = node.target
        item = [nodes.Name(target.name, "load")] if isinstance(target, nodes.Name) else []
        node.body.insert(0, _call(node, ENTER, item))
        loop = [nodes.Const(number)]
        return [_call(node, BEGIN, loop), node, _call(node, END, loop)]

    def visit_Assign(self, node: nodes.Assign) -> list[nodes.Node] | nodes.Node:
        self.generic_visit(node)
        if not isinstance(node.target, nodes.Name):
            return node
        return [node, _call(node, SET, [nodes.Name(node.target.name, "load")])]

    def visit_If(self, node: nodes.If) -> nodes.Node:
        """`if a | length` asks whether it is not 0."""
        if _measured(node.test) is not None:
            more_than_none = nodes.Compare(node.test, [nodes.Operand("ne", nodes.Const(0))])
            node.test = _at(more_than_none, node.lineno)
        self.generic_visit(node)
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        """`a in b` becomes a test, which is a call: Python asks b, which may be no text of ours.

        So does `a | length > 0`: not how long it is matters then, but whether it is longer.
        """
        self.generic_visit(node)
        value, last = _measured(node.expr), node.ops[-1]
        is_simple = len(node.ops) == 1 and isinstance(last.expr, nodes.Const)
        if value is not None and is_simple and last.op not in ("in", "notin"):
            given: list[nodes.Expr] = [nodes.Const(last.op), last.expr]
            return _at(nodes.Test(value, LENGTH, given, [], None, None), node.lineno)
        if not any(operand.op in ("in", "notin") for operand in node.ops):
            return node
        found: list[nodes.Expr] = []
        left = node.expr
        for operand in node.ops:  # a < b in c is a < b and b in c
            found.append(_compared(left, operand, node.lineno))
            left = operand.expr
        both = found[0]
        for each in found[1:]:
            both = _at(nodes.And(both, each), node.lineno)
        return both


def _measured(node: nodes.Node) -> nodes.Expr | None:
    """Return what the filter `length` is applied to; None if it is not that."""
    is_length = isinstance(node, nodes.Filter) and node.name in ("length", "count")
    return node.node if is_length and isinstance(node, nodes.Filter) else None


def _compared(left: nodes.Expr, operand: nodes.Operand, line: int) -> nodes.Expr:
    if operand.op not in ("in", "notin"):
        return _at(nodes.Compare(left, [operand]), line)
    test = _at(nodes.Test(left, "in", [operand.expr], [], None, None), line)
    return test if operand.op == "in" else _at(nodes.Not(test), line)


def _at(expression: nodes.Expr, line: int) -> nodes.Expr:
    expression.set_lineno(line)
    return expression


def _call(near: nodes.Node, name: str, args: Sequence[nodes.Expr]) -> nodes.Node:
    call = nodes.Call(nodes.Name(name, "load"), list(args), [], None, None)
    output: nodes.Node = nodes.Output([call]).set_lineno(near.lineno, override=True)
    assert near.environment is not None
    return output.set_environment(near.environment)
