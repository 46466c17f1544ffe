"""The JSONata of a state machine, parsed once; its meaning is sfnx's.

`sfnx.testing.evaluate` parses an expression each time it is used, converts every variable for it
and registers each function anew: three quarters of what the machine cost a question. Here an
expression is parsed once, again only for two evaluations at the same time, and gets what it names
of the variables, no more. A plain path, such as `$plan.cache`, needs no evaluator at all as long
as it meets objects only, nor does what `asl_shortcuts` knows.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import jsonata
from jsonata.utils import Utils
from sfnx import testing as sfnx

from docstokg_local.engine.shortcuts import Unsure, shortcut

Values = Mapping[str, Any]
"""The variables by name, and `states`."""

type Fields = dict[str, Fields | None]
"""The fields of an object that an expression reads, each with what it reads of it; None: all."""

Template = Callable[[Values], Any]
"""A field with its expressions filled in; raises `sfnx.testing.Failure`."""

_PATH = re.compile(r"\s*\$([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)*)\s*")
_VARIABLE = re.compile(r"\$([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)*)")
_ADDED: Mapping[str, Callable[..., object]] = {
    "parse": sfnx.parse,
    "uuid": sfnx.new_uuid,
    "random": sfnx.random_number,
    "range": sfnx.range_numbers,
    "now": sfnx.now,
    "millis": lambda: int(time.time() * 1000),
    "hash": sfnx.digest,
    "partition": sfnx.partition,
}
_MISSING = object()


def template(field: object) -> Template:
    """Prepare a field of a state: text in `{% %}` is evaluated, anything else stays as it is."""
    if (code := sfnx.expression(field)) is not None:
        return Expression(code)
    if isinstance(field, dict):
        members = {name: template(member) for name, member in field.items()}
        return lambda values: {name: member(values) for name, member in members.items()}
    if isinstance(field, list):
        items = [template(item) for item in field]
        return lambda values: [item(values) for item in items]
    return lambda _: field


class Expression:
    """One JSONata text; an undefined result is a `Failure`, as in Step Functions."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._free: list[jsonata.Jsonata] = []
        path = _PATH.fullmatch(code)
        self._path = (path[1], *path[2].split(".")[1:]) if path is not None else None
        self._shortcut = shortcut(code)
        self._reads: Fields = {}
        for name, fields in _VARIABLE.findall(code):
            # A parent (%) may be reached from below: then nothing is left out.
            below = [] if "%" in code else fields.split(".")[1:]
            _note(self._reads, [name, *below])

    def __call__(self, values: Values) -> Any:
        """Give the result as JSON."""
        if self._path is not None:
            value: Any = values.get(self._path[0], _MISSING)
            for name in self._path[1:]:
                value = value.get(name, _MISSING) if isinstance(value, dict) else _MISSING
            # What no object leads to may still be reached through a list, or be undefined.
            if value is not _MISSING:
                return value
        elif self._shortcut is not None:
            try:
                return self._shortcut(values)
            except Unsure:
                return self._evaluated(values)
        return self._evaluated(values)

    def _evaluated(self, values: Values) -> Any:
        # An evaluation keeps its time of day in the object: nobody shares it meanwhile.
        try:
            parsed = self._free.pop()
        except IndexError:
            parsed = self._parsed()
        jsonata.Jsonata.CURRENT.jsonata = parsed  # functions such as $map apply through it
        try:
            bindings = {
                name: sfnx.nulls(_needed(values[name], fields))
                for name, fields in self._reads.items()
                if name in values
            }
            result = parsed.evaluate(None, bindings)
        except jsonata.JException as broken:
            raise sfnx.Failure("States.QueryEvaluationError", str(broken)) from broken
        finally:
            self._free.append(parsed)
        if result is None:
            raise sfnx.Failure("States.QueryEvaluationError", f"{self._code} is undefined")
        value = Utils.convert_nulls(result)
        if not sfnx.is_json(value):
            detail = f"{self._code} returned an unsupported result type"
            raise sfnx.Failure("States.QueryEvaluationError", detail)
        return value

    def _parsed(self) -> jsonata.Jsonata:
        parsed = jsonata.Jsonata(self._code)
        parsed.set_output_convert_nulls(False)
        for name, function in _ADDED.items():
            parsed.register_lambda(name, function)
        for name, function in sfnx.DIFFERING.items():
            parsed.register_function(name, sfnx.Replaced(name, function))
        for name in sfnx.CASTS:
            parsed.register_function(name, sfnx.Cast(name))
        return parsed


def _note(fields: Fields, path: list[str]) -> None:
    """Note that a path is read."""
    name, *rest = path
    inner = fields.setdefault(name, {})
    if not rest:
        fields[name] = None
    elif inner is not None:
        _note(inner, rest)


def _needed(value: Any, fields: Fields | None) -> Any:
    """Give what is read of a value: an evaluation costs by the nodes it is given."""
    if fields is None or not isinstance(value, dict):
        return value
    return {name: _needed(value[name], inner) for name, inner in fields.items() if name in value}
