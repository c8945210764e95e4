"""What runs is what is installed: machine code of other sources is never used, whoever keeps or damages it."""

from __future__ import annotations

import ast
import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import venv
from pathlib import Path

import numpy as np
import pytest

from pintgn import compiled
from pintgn.errors import PintgnWarning
from tests.conftest import ROOT

PACKAGE = ROOT / "src" / "pintgn"
COUNT = """
import numpy as np
from pintgn.neighbors import NeighborIndex

index = NeighborIndex()
index.append(np.array([0, 0]), np.array([1, 1]), np.array([1, 5]))
print(index.count_pair(np.array([0]), np.array([1]), np.array([5]))[0])
"""
"""How often 0 met 1 before time 5: once. Without the gate of time: twice."""


MIX = """
import numpy as np
from pintgn.neighbors.kernels_lookups import mix

print(mix(np.uint64(1)))
"""
MIXED = "6238072747940578789\n"
"""One small kernel, and what it answers: the finalizer of splitmix64, of 1."""


def run(code: str, python: str = sys.executable, **environment: str) -> str:
    """What a program prints, with its own environment; its warnings on stderr are printed here."""
    done = subprocess.run(
        [python, "-P", "-c", textwrap.dedent(code)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        cwd=os.sep,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def remove_gate(package: Path) -> None:
    """Take the gate of time out of a function that others call; the files of those stay as they are."""
    path, gate = (
        package / "neighbors" / "kernels_lookups.py",
        "first = newest_before(times, numbers, first, stop, t, before)",
    )
    text = path.read_text()
    assert text.count(gate) == 1
    path.write_text(text.replace(gate, "pass"))


# --- other sources --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_upgrade_runs_what_it_installed(tmp_path):
    """Two wheels that differ in one function, which another file's kernel calls, one after the other."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = tmp_path / "env" / "lib" / version / "site-packages"
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))  # numpy and numba, but not this checkout
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home" / "cache"), "PYTHONPATH": ""}
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    told = []
    for change in (lambda package: None, remove_gate):
        checkout = tmp_path / "checkout"
        shutil.rmtree(checkout, ignore_errors=True)
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, checkout / "src" / "pintgn", ignore=ignore)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, checkout)
        change(checkout / "src" / "pintgn")
        build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(checkout), str(checkout)]
        subprocess.run(build, check=True, capture_output=True)
        wheel = next(checkout.glob("*.whl"))
        install = [*pip, "--python", str(python), "install", "--no-deps", "--force-reinstall", str(wheel)]
        subprocess.run(install, check=True, capture_output=True)
        assert str(site) in run("import pintgn; print(pintgn.__file__)", str(python), **home)
        told.append([run(COUNT, str(python), **home) for _ in range(2)])
    assert told == [["1\n", "1\n"], ["2\n", "2\n"]]


def test_an_edited_checkout_runs_what_was_edited(tmp_path):
    """The same in a checkout, where the files of the callers keep their time of change."""
    copy = tmp_path / "src" / "pintgn"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    own = {"PYTHONPATH": str(tmp_path / "src"), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run(COUNT, **own) == "1\n"
    remove_gate(copy)
    assert run(COUNT, **own) == "2\n"


def imported(path: Path) -> set[str]:
    """The files of the package that a file imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pintgn."):
            found.add(node.module.removeprefix("pintgn.").replace(".", "/") + ".py")
    return found


def test_the_key_covers_everything_that_kernels_are_made_of():
    sources = {str(path.relative_to(PACKAGE)) for path in compiled.sources()}
    makers = {name for name in sources if "@kernel" in (PACKAGE / name).read_text()}
    assert len(makers) > 10
    for path in PACKAGE.rglob("*.py"):
        name, text = str(path.relative_to(PACKAGE)), path.read_text()
        if "@kernel" in text or "@inner" in text or "@intrinsic" in text:
            assert name in sources
            assert imported(path) - {"errors.py"} <= sources, f"{name} imports what the key does not cover"
        assert "njit" not in text or name == "compiled.py", f"{name} makes kernels by itself"


def test_parts_of_kernels_are_called_by_kernels_only():
    """Python cannot call what has no wrapper."""
    sources = {path.resolve() for path in compiled.sources()}
    parts = set()
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        module = importlib.import_module(name.removesuffix(".__init__")) if "__main__" not in name else None
        if path.resolve() in sources:
            parts |= {id(one) for one in vars(module).values() if is_part(one)}
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                named = getattr(getattr(module, node.value.id, None), node.attr, None)
            else:
                named = getattr(module, node.id, None) if isinstance(node, ast.Name) else None
            assert not is_part(named), f"{path.name}, line {node.lineno}: {named.py_func.__name__} is @inner"
    assert len(parts) > 20


def is_part(value: object) -> bool:
    return isinstance(value, compiled.Part)


def test_a_part_of_kernels_refuses_to_be_called_by_python():
    @compiled.inner
    def one_more(x):
        return x + 1

    @compiled.kernel
    def two_more(x):
        return one_more(one_more(x))

    assert two_more(np.int64(1)) == 3
    with pytest.raises(TypeError, match="one_more"):
        one_more(1)


@pytest.mark.parametrize(
    ("change", "other"), [("version", "0.1"), ("llvmlite", "0.1"), ("python", "3.99"), ("NUMBA_OPT", "0")]
)
def test_the_key_covers_versions_and_settings(monkeypatch, change, other):
    before = compiled.key()
    assert before == compiled.key()
    if change == "NUMBA_OPT":
        monkeypatch.setenv(change, other)
    else:
        where, name = {
            "version": (compiled.numba, "__version__"),
            "llvmlite": (compiled.llvmlite, "__version__"),
            "python": (compiled.sys, "version"),
        }[change]
        monkeypatch.setattr(where, name, other)
    assert compiled.key() != before


def test_threads_and_the_place_of_the_cache_do_not_matter(monkeypatch):
    before = compiled.key()
    for name in compiled.NOT_ABOUT_CODE:
        monkeypatch.setenv(name, "7")
    assert compiled.key() == before


# --- damage, and folders that cannot be written ---------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    """A cache that holds what MIX needs."""
    where = tmp_path_factory.mktemp("cache")
    assert run(MIX, NUMBA_CACHE_DIR=str(where)) == MIXED
    return where


def files(where: Path) -> list[Path]:
    return sorted(path for path in where.rglob("*") if path.is_file())


def test_what_is_kept_is_used(filled):
    before = {path: path.stat().st_mtime_ns for path in files(filled)}
    assert len(before) >= 2
    again = run(MIX + "\nfrom pintgn import compiled; print(compiled.seconds())", NUMBA_CACHE_DIR=str(filled))
    assert again == f"{MIXED}0.0\n"
    assert before == {path: path.stat().st_mtime_ns for path in files(filled)}


@pytest.mark.parametrize(
    ("suffix", "left"),
    [
        (".nbi", 100),
        *(
            pytest.param(*both, marks=pytest.mark.slow)
            for both in [(".nbi", 0), (".nbi", 1), (".nbc", 0), (".nbc", 1), (".nbc", 100)]
        ),
    ],
)
def test_code_that_cannot_be_read_is_compiled_again(filled, tmp_path, suffix, left):
    where = tmp_path / "cache"
    shutil.copytree(filled, where)
    kept = [path for path in files(where) if path.suffix == suffix]
    assert kept
    for path in kept:
        path.write_bytes(path.read_bytes()[:left])
    assert run(MIX, NUMBA_CACHE_DIR=str(where)) == MIXED
    again = run(MIX + "\nfrom pintgn import compiled; print(compiled.seconds())", NUMBA_CACHE_DIR=str(where))
    assert again == f"{MIXED}0.0\n", "and kept"


def test_a_cache_that_cannot_be_written_is_said_and_nothing_is_wrong(tmp_path):
    (tmp_path / "file").write_text("")
    printed = run(MIX, NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert printed.startswith(MIXED)
    assert printed.count("compiled code cannot be kept") == 1
    assert "NUMBA_CACHE_DIR" in printed


@pytest.mark.skipif(os.name != "posix", reason="no such rights")
@pytest.mark.parametrize("where", ["pintgn", "key"])
@pytest.mark.parametrize("fault", ["others may write to", "belongs to another user"])
def test_a_cache_that_others_could_fill_is_not_run(filled, tmp_path, where, fault):
    """What is kept is run, so whoever can write there could run anything."""
    shutil.copytree(filled, tmp_path / "cache")
    home = tmp_path / "cache" / "pintgn"
    open_to_all = home if where == "pintgn" else home / compiled.key()
    before = files(tmp_path / "cache")
    code = MIX
    if fault == "others may write to":
        open_to_all.chmod(0o777)
    else:  # as seen by somebody else
        code = (
            f"""
import os, pathlib
real = pathlib.Path.stat
def stat(path, **how):
    found = real(path, **how)
    if str(path) != {str(open_to_all)!r}:
        return found
    return os.stat_result([*found[:4], found.st_uid + 1, *found[5:10]])
pathlib.Path.stat = stat
"""
            + code
        )
    printed = run(
        code + "\nfrom pintgn import compiled; print(compiled.folder())", NUMBA_CACHE_DIR=str(tmp_path / "cache")
    )
    assert printed.startswith(f"{MIXED}None\n"), "right, and not from the cache"
    assert printed.count("compiled code cannot be kept") == 1
    assert fault in printed
    assert files(tmp_path / "cache") == before


def test_the_cache_is_the_users_own_from_the_first(tmp_path):
    run(MIX, NUMBA_CACHE_DIR=str(tmp_path))
    home = tmp_path / "pintgn"
    assert [path.stat().st_mode & 0o77 for path in (home, *home.iterdir())] == [0, 0]  # what is below is behind them


@pytest.mark.slow
def test_a_full_disk_is_said_once_and_nothing_is_wrong(tmp_path):
    full = """
    from numba.core.caching import FunctionCache
    def save(*_): raise OSError(28, "No space left on device")
    FunctionCache.save_overload = save
    """
    printed = run(textwrap.dedent(full) + MIX, NUMBA_CACHE_DIR=str(tmp_path))
    assert printed.startswith(MIXED)
    assert printed.count("compiled code cannot be kept (No space left on device)") == 1


@pytest.mark.slow
def test_code_of_sources_that_changed_since_they_were_loaded_is_not_kept(tmp_path):
    changing = """
    import pintgn.compiled as compiled
    compiled.folder()
    compiled.key = lambda: "other"
    """
    assert run(textwrap.dedent(changing) + MIX, NUMBA_CACHE_DIR=str(tmp_path)) == MIXED
    assert [path.name for path in files(tmp_path)] == ["lock"]


def test_a_users_own_kernels_are_kept_where_they_were():
    import numba

    before = numba.config.CACHE_DIR
    compiled.kernel(lambda x: x + 1)
    assert before == numba.config.CACHE_DIR


def test_old_code_is_forgotten_when_nobody_has_used_it_for_long(tmp_path):
    for name, days in (("old", compiled.UNUSED_DAYS + 1), ("new", compiled.UNUSED_DAYS - 1)):
        made = tmp_path / name
        made.mkdir()
        (made / "code").write_text("")
        age = made.stat().st_mtime - days * 86_400
        os.utime(made, (age, age))
    compiled.forget_unused(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


# --- several processes ----------------------------------------------------------------------------------------


def test_two_processes_that_compile_other_signatures_at_once_keep_both(tmp_path):
    """Numba reads a function's index, adds to it and writes it; done by two at once, an entry is lost, or worse."""
    code = """
    import sys, time
    import numpy as np
    from numba.core.caching import IndexDataCacheFile

    slow = IndexDataCacheFile._save_index
    IndexDataCacheFile._save_index = lambda *both: (time.sleep(1), slow(*both))
    kind = np.dtype(sys.argv[1])
    from pintgn import compiled

    @compiled.kernel
    def doubled(x):
        return 2 * x

    print(doubled(kind.type(4)), doubled.stats.cache_misses)
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(code))
    own = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    commands = [[sys.executable, str(tmp_path / "program.py"), kind] for kind in ("int64", "float64")]
    for first in (True, False):
        both = [subprocess.Popen(command, env=own, stdout=subprocess.PIPE, text=True) for command in commands]
        printed = [process.communicate()[0].strip() for process in both]
        assert [line.split()[0] for line in printed] == ["8", "8.0"]
        assert [line.endswith("Counter()") for line in printed] == [not first] * 2


def test_nobody_waits_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "LONGEST_WAIT", 0.1)
    with (
        compiled.locked(tmp_path),
        pytest.raises(TimeoutError, match="another process"),
        compiled.locked(tmp_path),
    ):
        pass


def test_a_process_that_died_holds_no_lock(tmp_path):
    code = f"""
    import os, signal
    from pathlib import Path
    from pintgn import compiled
    with compiled.locked(Path({str(tmp_path)!r})):
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)])
    assert (tmp_path / "lock").exists()
    with compiled.locked(tmp_path):
        pass


@pytest.mark.slow
def test_positions_are_compiled_by_another_process_on_first_use(tmp_path):
    """This process goes on, and waits where it needs what the other makes: it compiles no pass of its own."""
    code = """
    import numpy as np
    import pintgn.compiled as compiled
    from pintgn.positions import RelativePositions, first_use
    from pintgn.positions.kernels_passes import exact_pass

    first_use.start()
    first_use.start()
    assert len(first_use.running) == 1
    RelativePositions(3).observe(np.array([0, 1]), np.array([1, 2]), np.array([1, 2]))
    assert not exact_pass.stats.cache_misses
    assert exact_pass.stats.cache_hits
    assert compiled.seconds() > 0
    first_use.start()
    assert not first_use.running, "it is there already"
    print("done")
    """
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).endswith("done\n")


# --- what is said, and what is counted ------------------------------------------------------------------------


def test_the_clock_stands_still_while_something_is_compiled():
    @compiled.kernel
    def doubled(x):
        return 2 * x

    begun, seconds = compiled.working_time(), compiled.seconds()
    doubled._cache = compiled.numba.core.caching.NullCache()
    assert doubled(np.int64(4)) == 8
    spent = compiled.seconds() - seconds
    assert spent > 0
    assert compiled.working_time() - begun < spent


def test_the_command_line_says_once_that_it_compiles(tmp_path):
    (tmp_path / "log.csv").write_text("src,dst,t\na,b,1\nb,c,2\n")
    command = [sys.executable, "-m", "pintgn", "data", "info", str(tmp_path / "log.csv")]
    own = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first, second = (subprocess.run(command, env=own, capture_output=True, text=True) for _ in range(2))
    assert first.stderr.count("Compiling for this machine, once") == 1
    assert "ompiling" not in second.stderr
    assert first.stdout == second.stdout


def test_a_warning_of_ours_can_be_told_from_others():
    compiled.warn_unkept.cache_clear()
    with pytest.warns(PintgnWarning, match="no room"):
        compiled.warn_unkept("no room")
    compiled.warn_unkept.cache_clear()
