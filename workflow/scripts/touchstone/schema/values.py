"""Typed tuples from values of JSON, and back."""

from typing import Any, Dict, List, Optional, Tuple, Type, TypeVar, Union

T = TypeVar("T")
NONE = type(None)


class WrongValue(ValueError):
    """A value is not of its declared type; the text names the field, the value and the type."""


def from_json(kind: Type[T], value: Any, where: str = "") -> T:
    """The `value`, as JSON has it, as a `kind`: a NamedTuple, a plain type, or one of `typing`.

    Unknown fields are refused, as are missing ones without a default. A whole number is a float
    too; a boolean is no number.

    Args:
        where: the name of the field that has the value, for the message.

    Raises:
        WrongValue: the value, or one in it, is not of its type.
    """
    result: T = _converted(kind, value, where)
    return result


def to_json(value: Any) -> Any:
    """A typed tuple, or whatever holds such tuples, as JSON has it.

    Fields that are None, as they are by default, are left out.
    """
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        defaults: Dict[str, Any] = getattr(value, "_field_defaults", {})
        return {
            name: to_json(part)
            for name, part in zip(value._fields, value)
            if part is not None or defaults.get(name, part) is not None or name not in defaults
        }
    if isinstance(value, dict):
        return {name: to_json(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(part) for part in value]
    return value


def type_name(kind: Any) -> str:
    """A type as documents and messages call it: `list of int`, `str or null`."""
    if kind is NONE:
        return "null"
    if kind is Any:
        return "any"
    arguments: Tuple[Any, ...] = getattr(kind, "__args__", None) or ()
    origin = getattr(kind, "__origin__", None)
    if origin is Union:
        return " or ".join(type_name(argument) for argument in arguments)
    if origin in (list, List):
        return "list of " + type_name(arguments[0])
    if origin in (dict, Dict):
        return "object of " + type_name(arguments[1])
    return str(kind.__name__)


def _converted(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    if hasattr(kind, "_fields"):
        return _tuple_of(kind, value, where)
    origin = getattr(kind, "__origin__", None)
    if origin is Union:
        return _one_of(kind.__args__, value, where)
    if origin in (list, List):
        if isinstance(value, list):
            inner = kind.__args__[0]
            if inner == Optional[float] and set(map(type, value)) <= {float, NONE}:
                return value  # the losses of a chunk, which are many
            return [_converted(inner, part, "%s[%d]" % (where, i)) for i, part in enumerate(value)]
    elif origin in (dict, Dict):
        if isinstance(value, dict):
            inner = kind.__args__[1]
            return {
                key: _converted(inner, part, _dotted(where, key)) for key, part in value.items()
            }
    elif isinstance(value, (int, float) if kind is float else kind):
        if kind is bool or not isinstance(value, bool):
            return float(value) if kind is float else value
    raise WrongValue("'{}' is {!r}, not {}".format(where, value, type_name(kind)))


def _one_of(kinds: Tuple[Any, ...], value: Any, where: str) -> Any:
    """The value as the first of the kinds that it can be; one kind besides null says why not."""
    if value is None and NONE in kinds:
        return None
    others = [kind for kind in kinds if kind is not NONE]
    reason: Optional[WrongValue] = None
    for kind in others:
        try:
            return _converted(kind, value, where)
        except WrongValue as fault:
            reason = fault
    if len(others) == 1 and hasattr(others[0], "_fields") and reason:
        raise reason
    names = " or ".join(type_name(kind) for kind in kinds)
    raise WrongValue("'{}' is {!r}, not {}".format(where, value, names))


def _tuple_of(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise WrongValue("'{}' is {!r}, not an object".format(where, value))
    fields = kind.__annotations__
    unknown = sorted(set(value) - set(fields))
    if unknown:
        raise WrongValue("'{}' is no field of {}".format(_dotted(where, unknown[0]), kind.__name__))
    values = {}
    for name, field in fields.items():
        if name in value:
            values[name] = _converted(field, value[name], _dotted(where, name))
        elif name not in kind._field_defaults:
            raise WrongValue("'{}' is missing".format(_dotted(where, name)))
    return kind(**values)


def _dotted(where: str, name: str) -> str:
    return where + "." + name if where else name
