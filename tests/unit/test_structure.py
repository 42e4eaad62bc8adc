"""The architecture as tests: direction of imports, where torch may appear, module sizes and names."""

import ast
import re
import subprocess
import sys
from collections import Counter

import pytest

from tests.unit.source_tree import MODULES, PACKAGES, ROOT, imported_names, parse, top

# Who may import whom; each package also imports itself.
ALLOWED_PACKAGES = {
    "attention": set(),
    "profiling": {"attention"},
    "ui": {"attention", "profiling"},
    "app": {"attention", "profiling", "ui"},
}
# Modules that may import torch. Everything else must work on a machine without it.
TORCH_MODULES = {
    "attention.inputs",
    "attention.call",
    "attention.tensors",
    "attention.kinds",
    "attention.fusion.backends",
    "attention.fusion.inputs",
    "attention.fusion.operation",
    "attention.fusion.reference",
    "attention.fusion.residual_rms_norm",
    "attention.fusion.swiglu",
    "attention.reference",
    "profiling.recorder",
    "profiling.eligibility",
    "profiling.failures",
    "profiling.timing",
    "profiling.memory",
    "profiling.compilation",
    "profiling.correctness",
    "profiling.judgement",
    "profiling.mask_truth",
    "profiling.mask_weights",
    "profiling.non_finite",
    "profiling.environment",
}
TORCH_PACKAGE = "attention.backends"  # inside a backend's build
PROFILER_MODULE = "profiling.recorder"  # the only one that starts torch.profiler

LINE_LIMIT = 300
FORBIDDEN_STEMS = re.compile(r"(^|_)(utils?|helpers?|common|managers?|misc)(_|$)")
BROAD_EXCEPTIONS = {"Exception", "BaseException"}


def may_import_torch(module: str) -> bool:
    return module in TORCH_MODULES or module.startswith(f"{TORCH_PACKAGE}.")


def web_process_modules() -> set[str]:
    """Modules that the page's process runs: what app, and the ui that its main imports, reach outside functions."""
    reached: set[str] = set()
    waiting = ["app", "ui"]
    while waiting:
        module = waiting.pop()
        if module in reached or module not in MODULES:
            continue
        reached.add(module)
        for name in imported_names(module, into_functions=False, into_type_checking=False):
            parts = name.split(".")
            # Importing a.b.c runs a and a.b too.
            waiting.extend(".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return reached


@pytest.mark.parametrize("module", MODULES)
def test_imports_run_one_way(module: str) -> None:
    own = top(module)
    first_party = {top(name) for name in imported_names(module)} & {*PACKAGES, "app"}
    wrong = first_party - ALLOWED_PACKAGES[own] - {own}
    assert not wrong, f"{module} imports {sorted(wrong)}; the direction is app → ui → profiling → attention"


@pytest.mark.parametrize("module", MODULES)
def test_only_the_page_imports_gradio(module: str) -> None:
    widgets = {"gradio", "spaces"} & {top(name) for name in imported_names(module)}
    if top(module) == "ui":
        widgets.discard("gradio")
    if module == "app":
        widgets.clear()
    assert not widgets, f"{module} imports {sorted(widgets)}: gradio belongs to ui and app.py, spaces to app.py"


@pytest.mark.parametrize("module", MODULES)
def test_torch_stays_in_its_modules(module: str) -> None:
    if "torch" not in {top(name) for name in imported_names(module)}:
        return
    assert may_import_torch(module), f"{module} imports torch; only {sorted(TORCH_MODULES)} and backends may"


@pytest.mark.parametrize("module", sorted(web_process_modules()))
def test_the_web_process_imports_torch_in_functions_only(module: str) -> None:
    names = imported_names(module, into_functions=False, into_type_checking=False)
    assert "torch" not in {top(name) for name in names}, (
        f"{module} is imported by the web process and imports torch at its top; import it inside the function"
    )


@pytest.mark.parametrize("module", MODULES)
def test_only_the_recorder_starts_the_profiler(module: str) -> None:
    if module == PROFILER_MODULE:
        return
    started = sorted(
        name
        for name in imported_names(module)
        if re.fullmatch(r"torch\.(autograd\.)?profiler(\.\w+)?", name) and not name.endswith(".record_function")
    )
    # `import torch` and then torch.profiler.profile(...) names it as an attribute.
    started += sorted(
        text
        for node in ast.walk(parse(module))
        if isinstance(node, ast.Attribute)
        for text in [ast.unparse(node)]
        if re.fullmatch(r"torch\.(autograd\.)?profiler\.(?!record_function\b)\w+", text)
    )
    assert not started, f"{module} uses {started}; only {PROFILER_MODULE} may start the profiler"


LAZINESS_PROBE = """
import importlib, sys, traceback

class Watch:
    first = None
    def find_spec(self, name, path=None, target=None):
        # find_spec("torch") also asks whether torch is there; only the stack of a real import is of use.
        if name == "torch" and Watch.first is None:
            Watch.first = "".join(traceback.format_stack(limit=40))
        return None

sys.meta_path.insert(0, Watch())
for module in sys.argv[1:]:
    Watch.first = None
    importlib.import_module(module)
    if "torch" in sys.modules:
        sys.exit(f"importing {module} imported torch:\\n{Watch.first}")
print(len(sys.argv) - 1)
"""


def test_torch_free_modules_leave_torch_out_of_the_process() -> None:
    # A package's __main__ runs the command line when imported.
    lazy = [
        module
        for module in MODULES
        if not module.endswith(".__main__")
        and "torch" not in {top(n) for n in imported_names(module, into_functions=False, into_type_checking=False)}
    ]
    assert len(lazy) >= len(MODULES) - len(TORCH_MODULES) - 1
    probe = subprocess.run(
        [sys.executable, "-c", LAZINESS_PROBE, *lazy], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert probe.returncode == 0, probe.stderr
    assert probe.stdout.split()[-1] == str(len(lazy))


@pytest.mark.parametrize("module", MODULES)
def test_module_fits_its_size(module: str) -> None:
    path = MODULES[module]
    lines = len(path.read_text(encoding="utf-8").splitlines())
    smallest = 0 if path.name == "__init__.py" else 1
    assert smallest <= lines <= LINE_LIMIT, f"{module} has {lines} lines; split it at {LINE_LIMIT}"


@pytest.mark.parametrize("module", MODULES)
def test_names_say_what_is_inside(module: str) -> None:
    stem = module.rsplit(".", 1)[-1]
    assert not FORBIDDEN_STEMS.search(stem), f"{module}: name it after what it holds"


def test_module_names_are_no_names_that_their_package_exports() -> None:
    clashes = []
    for package, path in MODULES.items():
        if path.name != "__init__.py":
            continue
        modules = {name.rsplit(".", 1)[1] for name in MODULES if name.rpartition(".")[0] == package}
        for node in parse(package).body:
            if isinstance(node, ast.ImportFrom) and node.module != package and not (node.level and not node.module):
                bound = {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                bound = {node.name}
            elif isinstance(node, ast.Assign):
                bound = {target.id for target in node.targets if isinstance(target, ast.Name)}
            else:
                continue
            clashes += [f"{package}.{name}" for name in bound & modules]
    assert not clashes, f"{clashes}: the name hides the module of the same name"


def is_silent(body: list[ast.stmt]) -> bool:
    return all(
        isinstance(node, ast.Pass | ast.Continue)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in body
    )


@pytest.mark.parametrize("module", MODULES)
def test_no_exception_disappears(module: str) -> None:
    faults = []
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.ExceptHandler):
            caught = (
                {ast.unparse(item) for item in ast.walk(node.type) if isinstance(item, ast.Name)}
                if node.type
                else set()
            )
            if node.type is None:
                faults.append(f"line {node.lineno}: bare except")
            elif caught & BROAD_EXCEPTIONS and is_silent(node.body):
                faults.append(f"line {node.lineno}: {ast.unparse(node.type)} is caught and dropped")
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in {"suppress", "contextlib.suppress"}
            and BROAD_EXCEPTIONS & {ast.unparse(argument) for argument in node.args}
        ):
            faults.append(f"line {node.lineno}: suppresses every exception")
    assert not faults, f"{module}: {faults}"


def test_test_folders_are_no_packages() -> None:
    markers = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("__init__.py")]
    assert not markers, f"remove {markers}: a test folder that is a package can hide the real one"


def test_test_files_have_unique_names() -> None:
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    repeated = [name for name, count in names.items() if count > 1]
    assert not repeated, f"{repeated} exist in more than one test folder"
