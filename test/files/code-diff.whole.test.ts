import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { describeDirectory } from "../../src/files/code/contents.ts";
import { diffCode, patches, unified } from "../../src/files/code/diff.ts";
import { editsOf } from "../../src/files/code/line-diff.ts";

let top: string;
beforeEach(() => void (top = realpathSync(mkdtempSync(join(tmpdir(), "svc-diff-")))));
afterEach(() => rmSync(top, { recursive: true, force: true }));

type Tree = Record<string, string | Buffer>;

function make(name: string, tree: Tree): string {
  const root = join(top, name);
  mkdirSync(root);
  for (const [path, content] of Object.entries(tree)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
    if (path.endsWith(".sh")) chmodSync(join(root, path), 0o755);
  }
  return root;
}

async function side(root: string) {
  return describeDirectory(root, join(top, "svc"));
}

async function changes(from: Tree, to: Tree) {
  const [a, b] = [make("a", from), make("b", to)];
  return { a, b, found: await diffCode(await side(a), await side(b)) };
}

/** The patch as written into a file or a pipe. */
async function patchOf(a: string, b: string): Promise<string> {
  const [from, to] = [await side(a), await side(b)];
  let text = "";
  for await (const patch of patches(await diffCode(from, to), from, to)) text += patch;
  return text;
}

/** Applies the patch to a copy of the first tree with git, and compares the result with the second tree by diff. */
function applied(a: string, b: string, patch: string): void {
  const copy = join(top, "copy");
  cpSync(a, copy, { recursive: true });
  if (patch !== "")
    execFileSync("git", ["apply", "--unidiff-zero", "-p1"], {
      cwd: copy,
      input: patch,
      stdio: ["pipe", "ignore", "pipe"],
    });
  execFileSync("diff", ["-r", copy, b]);
}

describe("the difference of two sets of code files", () => {
  it("lists added, removed, changed, renamed and newly executable files, in order of path", async () => {
    const long = Array.from({ length: 40 }, (_, i) => `line ${i}\n`).join("");
    const { a, b, found } = await changes(
      {
        "train.py": long,
        "old/name.py": "moved\n",
        "gone.py": "x\n",
        "same.py": "same\n",
        "empty.txt": "",
        tool: "echo\n",
      },
      {
        "train.py": long.replace("line 7\n", "line seven\n"),
        "new/name.py": "moved\n",
        "same.py": "same\n",
        "more.py": "no end",
        "empty.txt": "",
        tool: "echo\n",
      },
    );
    chmodSync(join(b, "tool"), 0o755);
    const told = await diffCode(await side(a), await side(b));
    expect(told.map((c) => [c.status, c.old_path, c.path, c.added_lines, c.removed_lines])).toEqual([
      ["removed", "gone.py", "gone.py", 0, 1],
      ["added", null, "more.py", 1, 0],
      ["renamed", "old/name.py", "new/name.py", 0, 0],
      ["mode", "tool", "tool", 0, 0],
      ["changed", "train.py", "train.py", 1, 1],
    ]);
    expect(found).toHaveLength(4);
    const patch = told.map((change) => unified(change)).join("");
    expect(patch).toContain("@@ -5,7 +5,7 @@");
    expect(patch).toContain("\\ No newline at end of file");
    expect(patch).toContain("old mode 100644\nnew mode 100755");
    applied(a, b, patch);
  });

  it("does not compare bytes line by line, and says so", async () => {
    const { found } = await changes(
      {
        "w.bin": Buffer.from([1, 0, 2]),
        "latin.txt": Buffer.from([0x66, 0xfc, 0x72, 0x0a]),
        big: "x\n".repeat(1_100_000),
      },
      { "w.bin": Buffer.from([1, 0, 3]), "latin.txt": "für\n", big: "y\n".repeat(1_100_000) },
    );
    expect(found.map((c) => [c.path, c.binary, c.patch, c.note])).toEqual([
      ["big", false, null, "too large to be compared line by line"],
      ["latin.txt", true, null, "binary files differ"],
      ["w.bin", true, null, "binary files differ"],
    ]);
    expect(unified(found[2]!)).toContain("Binary files a/w.bin and b/w.bin differ");
  });

  it("is also a patch for content that is binary, or too large for lines", async () => {
    const noise = (length: number, by: number): Buffer =>
      Buffer.from(Array.from({ length }, (_, i) => (i * by + (i >> 3)) % 256));
    const { a, b, found } = await changes(
      {
        "w.bin": noise(1, 3),
        "gone.bin": noise(52, 5),
        "big.txt": "x\n".repeat(1_100_000),
        "latin.txt": Buffer.from([0xfc, 10]),
        "run.sh": noise(9, 7),
        "ü n.bin": noise(5, 1),
      },
      {
        "w.bin": noise(1000, 7),
        "new.bin": noise(53, 9),
        "big.txt": "y\n".repeat(1_100_000),
        "latin.txt": Buffer.from([0xe4, 10]),
        "run.sh": noise(9, 11),
        "ü n.bin": noise(6, 1),
        "empty.bin": "",
      },
    );
    expect(found).toHaveLength(8);
    applied(a, b, await patchOf(a, b));
  });

  it("is accepted by patch for names with blanks", { tags: "needs/patch" }, async () => {
    const { a, b } = await changes({ "a b.txt": "1\n", "old c.txt": "x\n" }, { "a b.txt": "2\n", "new d.txt": "y\n" });
    const copy = join(top, "copy");
    cpSync(a, copy, { recursive: true });
    execFileSync("patch", ["-p1", "--silent"], { cwd: copy, input: await patchOf(a, b) });
    execFileSync("diff", ["-r", copy, b]);
  });

  it("does not produce the second set if a content is too large to be in it", async () => {
    const zeros = (length: number): Buffer => Buffer.alloc(length);
    const { a, b } = await changes({ "w.bin": zeros(9e6), "t.py": "1\n" }, { "w.bin": zeros(9e6 + 1), "t.py": "2\n" });
    const patch = await patchOf(a, b);
    expect(patch).toContain("Binary files a/w.bin and b/w.bin differ\n");
    // git applies the rest and skips such a file without an error.
    expect(() => applied(a, b, patch)).toThrow("Command failed: diff");
  });

  it("is still a patch for texts that share almost nothing", async () => {
    const random = (seed: number): string => {
      let x = seed;
      return Array.from({ length: 20_000 }, () => `${(x = (x * 1_103_515_245 + 12_345) % 2 ** 31)}\n`).join("");
    };
    const { a, b, found } = await changes({ "data.csv": `same\n${random(1)}` }, { "data.csv": `same\n${random(2)}` });
    expect(found[0]).toMatchObject({ status: "changed", note: null, removed_lines: 20_000 });
    applied(a, b, await patchOf(a, b));
  });

  it("finds as few lines as the longest common subsequence allows", () => {
    const letters = fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 14 });
    fc.assert(
      fc.property(letters, letters, (from, to) => {
        const edits = editsOf(from, to);
        const common = from.length - edits.reduce((sum, e) => sum + e.fromEnd - e.fromStart, 0);
        const table = Array.from({ length: from.length + 1 }, () => Array.from({ length: to.length + 1 }, () => 0));
        for (let i = from.length - 1; i >= 0; i--)
          for (let j = to.length - 1; j >= 0; j--)
            table[i]![j] =
              from[i] === to[j] ? table[i + 1]![j + 1]! + 1 : Math.max(table[i + 1]![j]!, table[i]![j + 1]!);
        expect(common).toBe(table[0]![0]);
        const rebuilt = edits
          .toReversed()
          .reduce<string[]>(
            (l, e) => l.toSpliced(e.fromStart, e.fromEnd - e.fromStart, ...to.slice(e.toStart, e.toEnd)),
            from,
          );
        expect(rebuilt).toEqual(to);
      }),
    );
  });

  it("is a patch that git applies, for any lines and names", async () => {
    const line = fc.constantFrom("a", "b", "", "  c", "-", "+x", "@@", "\\ No newline", "é", "tab\there");
    const text = fc
      .tuple(fc.array(line, { maxLength: 12 }), fc.boolean())
      .map(([l, end]) => l.join("\n") + (end ? "\n" : ""));
    const content = fc.oneof(
      { weight: 3, arbitrary: text },
      {
        weight: 1,
        arbitrary: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.concat([Buffer.alloc(1), bytes])),
      },
    );
    const name = fc.constantFrom("a.py", "b c.py", "d/e.py", 'q"uote.py', "tab\t.py", "ünï.py", "run.sh");
    const tree = fc.dictionary(name, content, { maxKeys: 5 });
    await fc.assert(
      fc.asyncProperty(tree, tree, async (from, to) => {
        for (const folder of ["a", "b", "copy"]) rmSync(join(top, folder), { recursive: true, force: true });
        const { a, b } = await changes(from, to);
        applied(a, b, await patchOf(a, b));
      }),
      { numRuns: 25 },
    );
  });
});
