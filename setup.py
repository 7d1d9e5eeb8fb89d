"""Builds the compiled modules; everything else about the project is in pyproject.toml.

HEADRACE_ENGINE_DEBUG=1 turns the engine's guards on; HEADRACE_ENGINE_SANITIZE=1 adds the address and
undefined-behaviour sanitizers (run Python with libasan preloaded then: `make fuzz`).
"""

import os
import sys

from Cython.Build import cythonize
from setuptools import Extension, setup

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
]
if sys.platform == "linux":
    COMPILED.append("server.epoll")

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

extensions = [
    Extension(
        f"headrace.{name}",
        [f"src/headrace/{name.replace('.', '/')}.pyx"],
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )
    for name in COMPILED
]

setup(
    ext_modules=cythonize(
        extensions,
        build_dir="build/cython",
        include_path=["src"],
        compiler_directives={"language_level": "3"},
    )
)
