"""Prints the public names of the Python package as JSON, from its text: signatures, docstrings, fields and methods."""

import ast
import json
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])


def tree_of(module):
    return ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))


def signature(node, bound=False):
    """The signature as a person writes it: on one line, or with one line per argument if that is too long."""
    of = node.args
    first = len(of.posonlyargs + of.args) - len(of.defaults)
    plain = [argument(one, of.defaults[n - first] if n >= first else None) for n, one in enumerate(of.posonlyargs + of.args)]
    named = [argument(*pair) for pair in zip(of.kwonlyargs, of.kw_defaults)]
    rest = ["*" + argument(of.vararg, None)] if of.vararg else ["*"] if named else []
    more = ["**" + argument(of.kwarg, None)] if of.kwarg else []
    arguments = (plain[1:] if bound else plain) + rest + named + more
    returns = "" if node.returns is None else " -> " + ast.unparse(node.returns)
    line = "%s(%s)%s" % (node.name, ", ".join(arguments), returns)
    if len(line) <= 100:
        return line
    return "%s(\n%s)%s" % (node.name, "".join("    %s,\n" % one for one in arguments), returns)


def argument(node, default):
    kind = "" if node.annotation is None else ": " + ast.unparse(node.annotation)
    value = "" if default is None else (" = " if kind else "=") + ast.unparse(default)
    return node.arg + kind + value


def function(node, bound=False):
    return {"signature": signature(node, bound), "doc": ast.get_docstring(node) or ""}


def described(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return {"kind": "function", **function(node)}
    parts = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    made = next((part for part in parts if part.name == "__init__"), None)
    public = [part for part in parts if not part.name.startswith("_")]
    marks = {part.name: {ast.unparse(mark) for mark in part.decorator_list} for part in public}
    fields = [part for part in node.body if isinstance(part, ast.AnnAssign) and not ast.unparse(part.target).startswith("_")]
    return {
        "kind": "class",
        "bases": [ast.unparse(base) for base in node.bases],
        "doc": ast.get_docstring(node) or "",
        "made": None if made is None else signature(made, True).replace("__init__", node.name).replace(" -> None", ""),
        "fields": [ast.unparse(part) for part in fields],
        "properties": [{"signature": part.name, "doc": ast.get_docstring(part) or ""} for part in public if "property" in marks[part.name]],
        "methods": [function(part, "staticmethod" not in marks[part.name]) for part in public if "property" not in marks[part.name]],
    }


def home_of(name, module):
    """The module whose text defines the name; None for a module itself."""
    tree = tree_of(module)
    if any(getattr(part, "name", None) == name for part in tree.body):
        return module
    imports = (part for part in ast.walk(tree) if isinstance(part, ast.ImportFrom) and part.module)
    source = next(part.module for part in imports if any(alias.name == name for alias in part.names))
    return None if source == "svc" else home_of(name, source)


def names_of(module):
    """Each public name of a module, in the order of its ``__all__``."""
    assigned = (part for part in tree_of(module).body if isinstance(part, ast.Assign))
    public = next(ast.literal_eval(part.value) for part in assigned if ast.unparse(part.targets[0]) == "__all__")
    homes = {name: home_of(name, module) for name in public}
    return {
        name: described(next(part for part in tree_of(home).body if getattr(part, "name", None) == name))
        for name, home in homes.items()
        if home is not None
    }


def codes_of_errors():
    """Class name to the codes, or beginnings of codes (``credential_*``), that an error of this class carries."""
    tables = {
        ast.unparse(part.target): part.value for part in tree_of("svc._errors").body if isinstance(part, ast.AnnAssign) and part.value
    }
    codes = {}
    for table, end in (("_CLASSES", ""), ("_BEGINNINGS", "*")):
        for key, kind in zip(tables[table].keys, tables[table].values):
            codes.setdefault(kind.id, []).append(key.value + end)
    return codes


modules = {"svc": names_of("svc.__init__"), "svc.hub": names_of("svc.hub")}
print(json.dumps({"modules": modules, "codes": codes_of_errors()}))
