"""No import climbs a layer (layers.toml, ADR 0002)."""

from __future__ import annotations

import tomllib

from source_tree import ROOT, modules

LAYERS: dict[str, list[str]] = tomllib.loads((ROOT / "layers.toml").read_text())["layers"]


def layer_of(module: str) -> str:
    """The most specific entry of layers.toml that holds a module."""
    parts = module.split(".")
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next(name for name in names if name in LAYERS)


def may_import(importer: str, target: str) -> bool:
    own = layer_of(importer)
    if own != "headrace" and (target == own or target.startswith(own + ".")):
        return True
    return any(
        target == allowed or (allowed != "headrace" and target.startswith(allowed + "."))
        for allowed in LAYERS[own]
    )


def test_modules_import_only_what_their_layer_may() -> None:
    refused = [
        f"{module.name} may import {LAYERS[layer_of(module.name)]}, not {target}"
        for module in modules()
        for target in sorted(module.imports())
        if not may_import(module.name, target)
    ]

    assert not refused, "\n".join(refused)


def test_layers_only_name_packages_that_exist() -> None:
    names = {m.name for m in modules()}
    named = {*LAYERS, *(target for allowed in LAYERS.values() for target in allowed)}

    assert named <= names


def test_an_upward_import_is_noticed() -> None:
    assert not may_import("headrace.engine.client", "headrace.server.session")
    assert not may_import("headrace.core.account", "headrace.server")
    assert not may_import("headrace.client.codec", "headrace.app")
