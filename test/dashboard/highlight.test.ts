import { isValidElement, type ReactNode } from "react";
import { expect, test } from "vitest";
import { highlighted } from "../../dashboard/src/run/highlight.ts";
import { languageOf } from "../../dashboard/src/run/language.ts";

const textOf = (node: ReactNode): string =>
  Array.isArray(node)
    ? node.map((each: ReactNode) => textOf(each)).join("")
    : isValidElement<{ children?: ReactNode }>(node)
      ? textOf(node.props.children)
      : typeof node === "string"
        ? node
        : "";
const classesOf = (node: ReactNode): string[] =>
  Array.isArray(node)
    ? node.flatMap((each: ReactNode) => classesOf(each))
    : isValidElement<{ children?: ReactNode; className?: string }>(node)
      ? [node.props.className ?? "", ...classesOf(node.props.children)]
      : [];

test("The highlighter keeps every character, and adds classes to the words that it knows", () => {
  const python = `# <b>not html</b>\nfrom torch import nn\n\n@torch.no_grad()\ndef main(n: int = 3) -> None:\n    print(f"{n} & '<script>'")\n`;
  const nodes = highlighted("python", python);
  expect(nodes.map(textOf).join("\n")).toBe(python);
  expect(classesOf(nodes)).toEqual(expect.arrayContaining(["hl-comment", "hl-keyword", "hl-string", "hl-number"]));
  for (const text of ["", "\u0000\u202e", 'if [ -z "$X" ]; then echo "unclosed', "`".repeat(1_000)])
    expect(highlighted("bash", text).map(textOf).join("\n")).toBe(text);
  // A string of several lines has its colour on each of them.
  expect(highlighted("python", '"""a\nb"""').map(classesOf)).toEqual([
    ["", "hl-string"],
    ["", "hl-string"],
  ]);
});

test("A file's name gives its language; a name that is not in the table gives none", () => {
  const names = ["train.py", "a/run.SH", "Dockerfile", "config.yaml", "pyproject.toml", "kernel.cu", "README.md"];
  expect(names.map(languageOf)).toEqual(["python", "bash", "dockerfile", "yaml", "ini", "cpp", "markdown"]);
  expect(["data.csv", "a.py/data", "", "constructor"].map(languageOf)).toEqual([null, null, null, null]);
});
