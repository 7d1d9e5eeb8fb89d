"""Python steps and sinks: `module:function` to the function, modules found beside the specification.

Never lives here: what the functions are called with (`plan`, `queries`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from headrace.errors import HeadraceError
from headrace.pipelines.modules import ModuleError, lies_in, load_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class FunctionError(HeadraceError):
    """A `module:function` cannot be used; the text says why."""


def find_function(name: str, folder: Path) -> Callable[..., Any]:
    """The function; its module is looked for in `folder` first, then where Python looks.

    Functions of a module in `folder` travel to the executors with their code, so that it need not be
    installed there.

    Raises: FunctionError.
    """
    module_name, _, attribute = name.partition(":")
    try:
        module = load_module(module_name, folder)
    except ModuleError as error:
        raise FunctionError(f"python: {name}: {error}") from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise FunctionError(f"python: {name}: module {module_name} has no function {attribute}")
    if lies_in(module, folder):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    function: Callable[..., Any] = found
    return function
