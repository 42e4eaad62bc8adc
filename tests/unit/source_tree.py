"""The repository's own modules, read from disk: which there are and what each imports. Nothing is executed."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("attention", "profiling", "ui")


def module_path(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_path(path): path
    for path in sorted([ROOT / "app.py", *(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))])
    if path.is_file()
}


@cache
def parse(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def is_type_checking(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def walk(node: ast.AST, *, into_functions: bool, into_type_checking: bool) -> Iterator[ast.AST]:
    """Every node below ``node``; without functions and TYPE_CHECKING blocks, those that an import executes."""
    for child in ast.iter_child_nodes(node):
        if not into_functions and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if not into_type_checking and is_type_checking(child):
            yield from walk(
                ast.Module(body=child.orelse, type_ignores=[]),
                into_functions=into_functions,
                into_type_checking=into_type_checking,
            )
            continue
        yield child
        yield from walk(child, into_functions=into_functions, into_type_checking=into_type_checking)


def imported_names(module: str, *, into_functions: bool = True, into_type_checking: bool = True) -> set[str]:
    """Dotted names that the module imports, absolute: ``from a.b import c`` gives ``a.b`` and ``a.b.c``."""
    names: set[str] = set()
    for node in walk(parse(module), into_functions=into_functions, into_type_checking=into_type_checking):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")
                if MODULES[module].name != "__init__.py":
                    package = package[:-1]
                package = package[: len(package) - node.level + 1]
                base = ".".join([*package, *([node.module] if node.module else [])])
            names.add(base)
            names.update(f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"importlib.import_module", "import_module"}:
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                names.add(first.value)
    return names


def top(name: str) -> str:
    return name.split(".")[0]
