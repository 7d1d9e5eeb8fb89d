"""fuzz_client.py on an engine that reports every place it reaches and every comparison to libFuzzer.

    python tests/fuzz/instrumented.py -max_total_time=600             # guards on
    python tests/fuzz/instrumented.py --sanitize -max_total_time=600  # and the address sanitizer
    python tests/fuzz/instrumented.py --client --mqtt -max_total_time=600  # one target after the other

Needs a C compiler and pip's atheris, nothing else. Atheris does not see into compiled modules by itself: the
engine is built with -fsanitize-coverage (gcc and clang both have trace-pc and trace-cmp), its reports come to
a small library (coverage.c), and that library's counters are made known to atheris' libFuzzer.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from fuzz.engine_copy import build, compiler  # noqa: E402 - after the path

LIBRARY: Final = "HEADRACE_FUZZ_COVERAGE"
"""The variable in which a process that is being fuzzed finds the library; not set when the engine reports
nothing.
"""

COUNTERS: Final = 65536
"""The counters, as in coverage.c."""


def register_counters() -> bool:
    """Makes the engine's counters known to libFuzzer; False when the engine has none. Before atheris.Fuzz."""
    if LIBRARY not in os.environ:
        return False
    import atheris.core_with_libfuzzer

    fuzzer = ctypes.CDLL(atheris.core_with_libfuzzer.__file__)
    library = ctypes.CDLL(os.environ[LIBRARY])
    for name in [f"{kind}cmp{size}" for kind in ("", "const_") for size in (1, 2, 4, 8)] + ["switch"]:
        pointer = ctypes.c_void_p.in_dll(library, f"hr_{name}")
        pointer.value = ctypes.cast(getattr(fuzzer, f"__sanitizer_cov_trace_{name}"), ctypes.c_void_p).value
    places = (ctypes.c_size_t * (2 * COUNTERS)).in_dll(library, "hr_places")
    for n in range(COUNTERS):
        places[2 * n] = 0x1000 + 16 * n
    for name, array in (
        ("8bit_counters", (ctypes.c_uint8 * COUNTERS).in_dll(library, "hr_counters")),
        ("pcs", places),
    ):
        begin = ctypes.addressof(array)
        end = begin + ctypes.sizeof(array)
        getattr(fuzzer, f"__sanitizer_cov_{name}_init")(ctypes.c_void_p(begin), ctypes.c_void_p(end))
    return True


def main() -> int:
    arguments = [argument for argument in sys.argv[1:] if argument != "--sanitize"]
    targets = [argument for argument in arguments if argument.startswith("--")] or ["--client"]
    of_libfuzzer = [argument for argument in arguments if argument not in targets]
    with tempfile.TemporaryDirectory(prefix="headrace-fuzz-") as directory:
        library = Path(directory) / "libheadracecoverage.so"
        command = [compiler(), "-O2", "-shared", "-fPIC", "-o", str(library), str(HERE / "coverage.c")]
        subprocess.run(command, check=True)
        environment = build(
            Path(directory) / "copy",
            sanitize="--sanitize" in sys.argv,
            compile_flags="-fsanitize-coverage=trace-pc,trace-cmp",
            link_flags=f"-Wl,--no-as-needed -Wl,-rpath,{directory} {library}",
        )
        environment[LIBRARY] = str(library)
        for target in targets:
            command = [sys.executable, str(HERE / "fuzz_client.py"), target, *of_libfuzzer]
            found = subprocess.run(command, env=environment, check=False).returncode
            if found:
                return found
    return 0


if __name__ == "__main__":
    sys.exit(main())
