"""JSON Schema as columns, and as a check of payloads by fastjsonschema.

fastjsonschema writes Python code from a schema and runs it, and fetches what `$ref` points to. A schema is
text of whoever may make a stream, so it is read first: known keywords only, with values of their types, names
that cannot end a literal, references put in their places, within limits. What is given on is made here.
Source: JSON Schema draft 7, with `$defs` and `dependentRequired` of 2020-12.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import json

from headrace.schemas.column_types import (
    BOOLEAN,
    DATE,
    DEEPEST,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    PayloadColumn,
    TypeCount,
    ValueForm,
    array_of,
    from_date,
    from_double,
    from_json,
    from_map,
    from_timestamp,
    map_of,
    same,
    struct_of,
    to_array,
    to_boolean,
    to_date,
    to_double,
    to_json,
    to_map,
    to_string,
    to_timestamp,
    to_whole,
)
from headrace.schemas.errors import Misfit, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.schemas.column_types import Convert

    _Read = Callable[["_Cleaner", str, Any, int], Any]

_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_REFUSED: Final = frozenset(
    (
        *("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "prefixItems", "minContains"),
        *("maxContains", "unevaluatedItems", "unevaluatedProperties", "dependentSchemas", "contentSchema"),
        *("extends", "disallow", "divisibleBy"),
    )
)
"""Keywords that would have to be obeyed, and are not known to the validator; any other says nothing."""
_UNSAFE: Final = re.compile(r"[\"'\\{}\x00-\x1f\x7f]")
_UNSAFE_VALUE: Final = re.compile(r"[\"\\\x00-\x1f\x7f]")


class JsonSchema:
    """A JSON Schema: its columns, and the payloads that fit."""

    def __init__(self, text: str) -> None:
        """Read a schema. Raises: SchemaError."""
        document = parse_json(text)
        cleaner = _Cleaner(document)
        self._clean = cleaner.schema(document, 0)
        self._valid: Callable[[Any], None] | None = None
        self.has_patterns: Final = cleaner.has_patterns
        """True if a check matches regular expressions of the schema's author, which may take any time."""
        self._form = _form(self._clean)
        self.type: Final = self._form.type
        self.convert: Final = self._form.read
        if not self.has_patterns:  # else making the check may match, too
            self._valid = _validator(self._clean)

    def decode(self, payload: bytes) -> Any:
        """The value of a payload. Raises: Misfit for one that is not JSON."""
        try:
            return json.decode(payload)
        except (ValueError, RecursionError) as error:
            raise Misfit(f"not JSON: {error}") from error

    def write(self, value: Any) -> bytes:
        """The payload of a value as Arrow gives it. Raises: Misfit."""
        found = self._form.write(value)
        self.check(found)
        return json.encode(found)

    def check(self, value: Any) -> None:
        """Check that a value is valid. Raises: Misfit."""
        if self._valid is None:
            self._valid = _validator(self._clean)
        self._valid(value)


def parse_json(text: str) -> Any:
    """The JSON that a schema is written in. Raises: SchemaError."""
    try:
        return json.decode(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"not JSON: {error}") from error


def _validator(clean: Any) -> Callable[[Any], None]:
    """The generated check of values. Raises: SchemaError."""
    try:
        import fastjsonschema
    except ModuleNotFoundError as error:
        raise SchemaError(
            "JSON Schema needs the package fastjsonschema: pip install 'headrace[schemas]'"
        ) from error
    try:
        validate = fastjsonschema.compile(
            clean, use_default=False, use_formats=False, detailed_exceptions=False
        )
    except fastjsonschema.JsonSchemaDefinitionException as error:
        raise SchemaError(str(error)) from error
    except (SyntaxError, RecursionError) as error:  # of the generated code: Python nests 20 loops
        raise SchemaError("more levels of lists and alternatives than can be checked") from error

    def check(value: Any) -> None:
        try:
            validate(value)
        except fastjsonschema.JsonSchemaValueException as error:
            raise Misfit(_reason(error.message)) from error
        except (ArithmeticError, RecursionError) as error:  # a multipleOf of numbers too far apart
            raise Misfit(f"cannot be checked: {error}") from error

    return check


def _reason(message: str) -> str:
    """The validator's text; without details it leaves out which properties are missing."""
    return f"{message}what is required" if message.endswith(" must contain ") else message


# -- the schema that the validator is made of --------------------------------------------------------------


class _Cleaner:
    """A reader of one schema: what of it the validator is given."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._within = ["#"]
        self._count = TypeCount()
        self.has_patterns = False

    def schema(self, given: Any, depth: int) -> Any:
        """Return a schema with known keywords only. Raises: SchemaError."""
        self._count.add(depth)
        if type(given) is bool:
            return given
        if type(given) is not dict:
            raise SchemaError(f"{_shown(given)} is not a schema")
        clean: dict[str, Any] = {}
        for keyword, value in given.items():
            read = _READERS.get(keyword)
            if read is not None:
                clean[keyword] = read(self, keyword, value, depth + 1)
            elif keyword in _REFUSED:
                raise SchemaError(f"keyword {keyword} is not supported")
        if "$ref" in given:
            return self._referenced(given["$ref"], clean, depth)
        if "dependentRequired" in clean:
            clean["dependencies"] = clean.pop("dependentRequired") | clean.get("dependencies", {})
        if "const" in clean:
            only = {"enum": [clean.pop("const")]}
            clean = {**clean, "allOf": [*clean.get("allOf", ()), only]} if "enum" in clean else clean | only
        return clean

    def _referenced(self, reference: Any, beside: dict[str, Any], depth: int) -> Any:
        """Return the schema that a reference points to, in its place."""
        if type(reference) is not str or not (reference == "#" or reference.startswith("#/")):
            raise SchemaError(f"$ref {_shown(reference)} does not point into the schema itself")
        if reference in self._within:
            raise SchemaError(f"$ref {_shown(reference)} points to what it is in: recursion is not supported")
        target = self._root
        for token in reference[1:].split("/")[1:]:
            name = token.replace("~1", "/").replace("~0", "~")
            if type(target) is not dict or name not in target:
                raise SchemaError(f"$ref {_shown(reference)} points to nothing")
            target = target[name]
        self._within.append(reference)
        found = self.schema(target, depth + 1)
        self._within.pop()
        default = {"default": beside.pop("default")} if "default" in beside else {}
        if not beside:
            return found if not default or type(found) is not dict else found | default
        return {**beside, "allOf": [found, *beside.get("allOf", ())], **default}

    # -- values of keywords

    def _types(self, keyword: str, value: Any, _depth: int) -> Any:
        for one in value if type(value) is list else [value]:
            if one not in _TYPES:
                raise SchemaError(f"{keyword} {_shown(one)} is not one of {', '.join(_TYPES)}")
        return value

    def _schemas(self, keyword: str, value: Any, depth: int) -> Any:
        if type(value) is not list or not value:
            raise SchemaError(f"{keyword} is not a list of schemas")
        return [self.schema(one, depth) for one in value]

    def _schema(self, _keyword: str, value: Any, depth: int) -> Any:
        return self.schema(value, depth)

    def _named(self, keyword: str, value: Any, depth: int) -> Any:
        if type(value) is not dict:
            raise SchemaError(f"{keyword} is not an object of schemas")
        return {_name(name): self.schema(one, depth) for name, one in value.items()}

    def _items(self, keyword: str, value: Any, depth: int) -> Any:
        return self._schemas(keyword, value, depth) if type(value) is list else self.schema(value, depth)

    def _names(self, keyword: str, value: Any, _depth: int) -> Any:
        if type(value) is not list:
            raise SchemaError(f"{keyword} is not a list of names")
        return [_name(one) for one in value]

    def _dependencies(self, keyword: str, value: Any, depth: int) -> Any:
        if type(value) is not dict:
            raise SchemaError(f"{keyword} is not an object")
        return {
            _name(name): self._names(keyword, one, depth) if type(one) is list else self.schema(one, depth)
            for name, one in value.items()
        }

    def _number(self, keyword: str, value: Any, _depth: int) -> Any:
        if type(value) not in (int, float) or not math.isfinite(value):
            raise SchemaError(f"{keyword} is not a number")
        if keyword == "multipleOf" and value <= 0:
            raise SchemaError(f"{keyword} is not above 0")
        return value

    def _size(self, keyword: str, value: Any, _depth: int) -> Any:
        if type(value) is not int or value < 0:
            raise SchemaError(f"{keyword} is not a whole number from 0")
        return value

    def _flag(self, keyword: str, value: Any, _depth: int) -> Any:
        if type(value) is not bool:
            raise SchemaError(f"{keyword} is neither true nor false")
        return value

    def _values(self, keyword: str, value: Any, _depth: int) -> Any:
        if type(value) is not list:
            raise SchemaError(f"{keyword} is not a list of values")
        for one in value:
            _check_value(keyword, one, 0)
        return value

    def _value(self, keyword: str, value: Any, _depth: int) -> Any:
        _check_value(keyword, value, 0)
        return value

    def _text(self, keyword: str, value: Any, _depth: int) -> Any:
        if type(value) is not str:
            raise SchemaError(f"{keyword} is not a string")
        return value

    def _any(self, _keyword: str, value: Any, _depth: int) -> Any:
        return value

    def _pattern(self, keyword: str, value: Any, _depth: int) -> Any:
        self.has_patterns = True
        try:
            re.compile(value)
        except (re.error, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SchemaError(f"{keyword} {_shown(value)} is not a regular expression: {error}") from error
        return value

    def _patterns(self, keyword: str, value: Any, depth: int) -> Any:
        if type(value) is not dict:
            raise SchemaError(f"{keyword} is not an object of schemas")
        return {self._pattern(keyword, one, depth): self.schema(of, depth) for one, of in value.items()}


_READERS: Final[Mapping[str, _Read]] = {
    "type": _Cleaner._types,
    "format": _Cleaner._text,
    "default": _Cleaner._any,
    "enum": _Cleaner._values,
    "const": _Cleaner._value,
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _Cleaner._schemas),
    **dict.fromkeys(
        ("not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "additionalItems"),
        _Cleaner._schema,
    ),
    "items": _Cleaner._items,
    "properties": _Cleaner._named,
    "required": _Cleaner._names,
    **dict.fromkeys(("dependencies", "dependentRequired"), _Cleaner._dependencies),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _Cleaner._number
    ),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _Cleaner._size
    ),
    "uniqueItems": _Cleaner._flag,
    "pattern": _Cleaner._pattern,
    "patternProperties": _Cleaner._patterns,
}


def _name(given: Any) -> str:
    """A property's name, which becomes a literal of the generated code."""
    if type(given) is not str or _UNSAFE.search(given):
        raise SchemaError(
            f"{_shown(given)} is not supported as a name: quotes, braces, backslashes and control characters"
        )
    return given


def _check_value(keyword: str, value: Any, depth: int) -> None:
    """Check a value that becomes a literal of the generated code. Raises: SchemaError."""
    if depth > DEEPEST:
        raise SchemaError(f"{keyword} has more than {DEEPEST} levels")
    if type(value) is str and _UNSAFE_VALUE.search(value):
        raise SchemaError(
            f"{_shown(value)} is not supported in {keyword}: quotes, backslashes and control characters"
        )
    if type(value) is dict:
        for name in value:
            _name(name)
    for one in value.values() if type(value) is dict else value if type(value) is list else ():
        _check_value(keyword, one, depth + 1)


def _shown(value: Any) -> str:
    text = json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


# -- columns -------------------------------------------------------------------------------------------------


def _form(schema: Any) -> ValueForm:
    """The form of a schema that is clean.

    What has no one type is its JSON text. Raises: SchemaError for a default that is not of its schema.
    """
    types = _types_of(schema)
    if types == ["object"]:
        return _object_form(schema)
    if types == ["array"] and type(schema.get("items")) is dict:
        item = _form(schema["items"])
        return ValueForm(array_of(item.type), to_array(item.read), to_array(item.write))
    if types == ["string"]:
        return _STRINGS.get(schema.get("format", ""), _STRING)
    if tuple(types) in _SIMPLE:
        return _SIMPLE[tuple(types)]
    inner = _only_part(schema)
    return _ANYTHING if inner is None else _form(inner)


_STRING: Final = ValueForm(STRING, to_string, same)
_ANYTHING: Final = ValueForm(STRING, to_json, from_json)
_NUMBER: Final = ValueForm(DOUBLE, to_double, from_double)
_STRINGS: Final[Mapping[str, ValueForm]] = {
    "date": ValueForm(DATE, to_date, from_date),
    "date-time": ValueForm(TIMESTAMP, to_timestamp, from_timestamp),
}
_SIMPLE: Final[Mapping[tuple[str, ...], ValueForm]] = {
    ("boolean",): ValueForm(BOOLEAN, to_boolean, same),
    ("integer",): ValueForm(LONG, to_whole(64), same),
    ("number",): _NUMBER,
    ("integer", "number"): _NUMBER,
}
_OF_VALUES: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
}


def _types_of(schema: Any) -> list[str]:
    """The types that a schema names, without null."""
    if type(schema) is not dict:
        return []
    given = schema.get("type")
    if given is None and "properties" in schema:
        given = "object"
    if given is None and "enum" in schema:
        given = sorted({_OF_VALUES.get(type(one), "object") for one in schema["enum"]})
        if "object" in given:
            return []
    types = given if type(given) is list else [given]
    return sorted({one for one in types if one not in (None, "null")})


def _only_part(schema: Any) -> Any:
    """The one alternative but null of a schema without a type of its own; None if there is none."""
    if type(schema) is not dict or _types_of(schema):
        return None
    parts = [one for keyword in ("allOf", "anyOf", "oneOf") for one in schema.get(keyword, ())]
    parts = [one for one in parts if one not in ({"type": "null"}, {"enum": [None]})]
    return parts[0] if len(parts) == 1 else None


def _object_form(schema: dict[str, Any]) -> ValueForm:
    properties = schema.get("properties")
    others = schema.get("additionalProperties")
    if properties:
        return _struct_form(properties, schema.get("required", ()))
    if type(others) is dict and others and "patternProperties" not in schema:
        item = _form(others)
        return ValueForm(map_of(item.type), to_map(item.read), from_map(item.write))
    return _ANYTHING


def _struct_form(properties: dict[str, Any], required: Sequence[str]) -> ValueForm:
    columns: list[PayloadColumn] = []
    fields: list[tuple[str, Convert, Any, bool]] = []
    writes: list[tuple[str, Convert, bool]] = []
    for name, schema in properties.items():
        form = _form(schema)
        columns.append(PayloadColumn(name, form.type))
        default = schema.get("default") if type(schema) is dict else None
        try:
            missing = form.read(default)
        except Misfit as error:
            raise SchemaError(f"the default of {name}: {error}") from error
        fields.append((name, form.read, missing, name in required and default is None))
        writes.append((name, form.write, name in required))
    return ValueForm(struct_of(tuple(columns)), _to_struct(fields), _from_struct(writes))


def _to_struct(fields: list[tuple[str, Convert, Any, bool]]) -> Convert:
    """The conversion of objects; a property that is missing has its default (Avro's rule for readers)."""

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise Misfit("not an object")
        row = {}
        for name, of_field, missing, is_required in fields:
            if name in value:
                try:
                    row[name] = of_field(value[name])
                except Misfit as error:
                    raise Misfit(f"{name}: {error}") from error
            elif is_required:
                raise Misfit(f"{name} is missing, and has no default")
            else:
                row[name] = missing
        return row

    return convert


def _from_struct(fields: list[tuple[str, Convert, bool]]) -> Convert:
    """The conversion to objects; a null is left out where it may be."""

    def convert(value: Any) -> Any:
        if value is None:
            return None
        found = {}
        for name, of_field, is_required in fields:
            try:
                one = of_field(value[name])
            except Misfit as error:
                raise Misfit(f"{name}: {error}") from error
            if one is not None or is_required:
                found[name] = one
        return found

    return convert
