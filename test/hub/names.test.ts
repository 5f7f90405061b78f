import { describe, expect, it } from "vitest";
import { firstObjection, pathObjection } from "../../src/hub/paths.ts";
import { chooserOf } from "../../src/hub/patterns.ts";
import { HubPullBody } from "../../src/schemas/hub.ts";

describe("a pattern", () => {
  // By Python's fnmatch.fnmatchcase.
  const cases: [pattern: string, path: string, matches: boolean][] = [
    ["*.json", "config.json", true],
    ["*.json", "a/b/config.json", true],
    ["*.json", "config.JSON", false],
    ["data/*.json", "data/x/y.json", true],
    ["data/", "data/x/y.json", true],
    ["data", "data/x", false],
    ["model-0000?-of-*", "model-00001-of-00002.bin", true],
    ["[ab].bin", "b.bin", true],
    ["[!ab].bin", "b.bin", false],
    ["[a-c]x", "bx", true],
    ["[c-a]x", "bx", false],
    ["[]]x", "]x", true],
    ["[!]]x", "]x", false],
    ["[x", "[x", true],
    ["[a-]x", "-x", true],
    ["a.b", "axb", false],
    ["{a,b}", "a", false],
    ["**", "any/thing", true],
    ["?", "é", true],
    ["?", "😀", true],
    ["", "", true],
  ];
  it.each(cases)("%j of %j: %s", (pattern, path, matches) => expect(chooserOf([pattern])(path)).toBe(matches));

  it("without a list matches all files, with an empty one none, and with several needs one match", () => {
    expect(chooserOf(null)("x")).toBe(true);
    expect(chooserOf([])("x")).toBe(false);
    expect(chooserOf(["y", "x"])("x")).toBe(true);
  });

  it("with many stars takes bounded time", () => {
    expect(chooserOf([`${"*a".repeat(60)}b`])("a".repeat(1_000))).toBe(false);
  });
});

describe("a path", () => {
  it("is accepted for an ordinary model", () => {
    for (const path of [
      "config.json",
      "a/b.c/d-e_f+g.safetensors",
      ".gitattributes",
      ".github/x.yml",
      "ünï/模型.bin",
      "a b.txt",
      "1/conx.txt",
    ])
      expect(pathObjection(path), path).toBeNull();
  });

  it("is refused if two systems would read it differently", () => {
    const odd = [
      "",
      "/a",
      "a/",
      "a//b",
      ".",
      "a/..",
      "../a",
      ".cache/huggingface/x",
      ".Cache/HuggingFace/download/x",
      ".git/config",
      "a/.GIT/hooks/post-checkout",
      "GIT~1/config",
      ".g\u200cit/config",
      "a\\b",
      "c:a",
      "a\0b",
      "a\nb",
      "NUL",
      "a/con.txt",
      "LPT1",
      "a./b",
      "a ",
      "x".repeat(256),
      "\ud800",
      "a*b",
    ];
    for (const path of odd) expect(pathObjection(path), JSON.stringify(path)).not.toBeNull();
  });

  it("is named if it cannot be stored together with another", () => {
    expect(firstObjection(["a/b", "a/c", "b"])).toBeNull();
    expect(firstObjection(["a", "a/b"])).toMatchObject({ path: "a/b" });
    expect(firstObjection(["a/b", "a"])).toMatchObject({ path: "a" });
    expect(firstObjection(["A/b", "a/c"])).toMatchObject({ path: "a/c" });
    expect(firstObjection(["é", "e\u0301"])).toMatchObject({ path: "e\u0301" });
  });
});

describe("a request", () => {
  const takes = (body: object): boolean => HubPullBody.safeParse(body).success;
  it("names a model in the hub's form", () => {
    for (const model_id of ["gpt2", "ann/tiny-1.5_b", "A/b"]) expect(takes({ model_id }), model_id).toBe(true);
    for (const model_id of [
      "",
      "/a",
      "a/",
      "a/b/c",
      "../a",
      "a/..",
      "a/.b",
      "a b",
      "a--b/c",
      "a/b.git",
      "con/x",
      "a/nul",
      "a/b.",
      "a\\b",
    ])
      expect(takes({ model_id }), model_id).toBe(false);
  });
  it("names a revision that can be a file of its own", () => {
    for (const revision of ["main", "v1.0", "refs/pr/1", "a".repeat(40)])
      expect(takes({ model_id: "a/b", revision }), revision).toBe(true);
    for (const revision of ["", "..", "a/../b", "/a", "a//b", "a/", "a b\n", "a:b"])
      expect(takes({ model_id: "a/b", revision }), revision).toBe(false);
  });
});
