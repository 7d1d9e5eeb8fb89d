"""Builds the compiled modules and the description for PyPI; everything else is in pyproject.toml.

HEADRACE_ENGINE_DEBUG=1 turns the engine's guards on; HEADRACE_ENGINE_SANITIZE=1 adds the address and
undefined-behaviour sanitizers (run Python with libasan preloaded then: `make fuzz`).

Modules that are built beside their sources keep their symbols, for profilers and debuggers. Those of a wheel
have none.
"""

import os
import re
import sys
import tomllib
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent

COMPILED = [
    "conf.plain",
    "engine.memory",
    "engine.permission_cache",
    "engine.trie",
    "engine.interest",
    "engine.s2",
    "engine.input_buffer",
    "engine.link",
    "engine.reply_mapping",
    "engine.remote",
    "engine.header_rewrite",
    "engine.tracing",
    "engine.delivery",
    "engine.client",
    "engine.lanes",
    "engine.service",
    "engine.stream_imports",
    "engine.service_imports",
    "engine.account_cache",
    "engine.wire",
    "engine.peer",
    "engine.unsubscribe",
    "engine.route",
    "engine.legacy_route",
    "engine.cluster_interest",
    "engine.gateway_interest",
    "engine.gateway",
    "engine.leaf",
    "engine.sequence_set",
    "engine.subject_index",
    "engine.messages",
    "engine.batches",
    "engine.records",
    "engine.log_core",
    "engine.log_reading",
    "engine.memory_log",
    "engine.memory_reading",
    "engine.api_requests",
    "engine.direct_gets",
    "engine.stan",
    "engine.pending",
    "engine.consumer",
    "engine.ack_lane",
    "engine.jetstream",
    "engine.pulls",
    "engine.api_lane",
    "engine.ids",
    "engine.publish_lane",
    "engine.replay",
    "engine.columns",
    "engine.frames",
    "engine.traffic",
    "engine.syncer",
    "engine.message_blocks",
    "engine.mqtt_topics",
    "engine.mqtt_headers",
    "engine.mqtt_window",
    "engine.mqtt_unconfirmed",
    "engine.mqtt_routing",
    "engine.mqtt_filters",
    "engine.mqtt_sending",
    "engine.mqtt_outlet",
    "engine.mqtt_receiver",
    "engine.mqtt_releases",
    "engine.mqtt_staged",
    "engine.mqtt_incoming",
    "engine.mqtt",
    "load.loops",
]
if sys.platform == "linux":
    COMPILED.append("server.epoll")

PROCESSORS = os.cpu_count() or 1

debug = os.environ.get("HEADRACE_ENGINE_DEBUG") == "1"
sanitize = os.environ.get("HEADRACE_ENGINE_SANITIZE") == "1"

compile_args = ["-O2", "-g", "-fno-strict-aliasing", "-Wno-unused-function", "-Wno-unreachable-code"]
link_args: list[str] = []
if debug or sanitize:
    compile_args.append("-DHEADRACE_ENGINE_DEBUG")
if sanitize:
    compile_args += [
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=undefined",
        "-fno-omit-frame-pointer",
    ]
    link_args += ["-fsanitize=address,undefined"]

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<target>[^)\s]+)\)")


class BuildModules(build_ext):
    """Translates and compiles as many modules at once as there are processors."""

    keeps_symbols = debug or sanitize

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or PROCESSORS

    def run(self) -> None:
        # Here, since setuptools forgets meanwhile that modules go beside their sources.
        self.keeps_symbols = self.keeps_symbols or self.inplace or self.editable_mode
        super().run()

    def build_extensions(self) -> None:
        """Only here are modules translated: an sdist has none of the C, and takes seconds."""
        translated = cythonize(
            [Extension(extension.name, extension.sources) for extension in self.extensions],
            build_dir="build/cython",
            include_path=["src"],
            compiler_directives={"language_level": "3"},
            nthreads=self.parallel,
        )
        sources = {extension.name: extension.sources for extension in translated}
        for extension in self.extensions:
            extension.sources = sources[extension.name]
            if not self.keeps_symbols:
                extension.extra_compile_args = [*extension.extra_compile_args, "-g0"]
                extension.extra_link_args = [*extension.extra_link_args, "-Wl,-s"]
        super().build_extensions()


def description() -> str:
    """README as PyPI shows it: there are no files beside it there, so links lead to those of this version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link["image"] else "blob"
        url = f"{project['urls']['Source']}/{kind}/v{project['version']}/{link['target']}"
        return f"{link['image']}[{link['text']}]({url})"

    return _LINK.sub(absolute, (ROOT / "README.md").read_text("utf-8"))


if __name__ == "__main__":
    setup(
        cmdclass={"build_ext": BuildModules},
        ext_modules=[
            Extension(
                f"headrace.{name}",
                [f"src/headrace/{name.replace('.', '/')}.pyx"],
                extra_compile_args=compile_args,
                extra_link_args=link_args,
            )
            for name in COMPILED
        ],
        long_description=description(),
        long_description_content_type="text/markdown",
    )
