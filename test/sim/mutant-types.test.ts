// Node drops types without a look, so a mutant of another type fails with a TypeError in place of its defect, and proves nothing.

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { ROOT } from "./fleet.ts";
import { MUTANTS, patched } from "./mutants.ts";
import { TESTED_MUTANTS } from "./tested-mutants.ts";

const folder = join(ROOT, ".cache", `mutant-types-${process.pid}`);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A tree with as many of the mutants as fit together, and the others. */
function together<M extends Parameters<typeof patched>[0]>(mutants: readonly M[]) {
  const texts = new Map<string, string>();
  const others = mutants.filter((mutant) => {
    try {
      for (const [file, text] of patched(mutant, texts)) texts.set(file, text);
      return false;
    } catch {
      return true;
    }
  });
  return { texts, others };
}

it("Each mutant has the types of the code that it replaces", () => {
  const folders = new Set(
    [...MUTANTS, ...TESTED_MUTANTS].flatMap(({ patches }) =>
      patches.map(({ file }) => file.split("/").slice(0, 2).join("/")),
    ),
  );
  for (const part of ["src", "sdk", "dashboard/src"]) cpSync(join(ROOT, part), join(folder, part), { recursive: true });
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({
      extends: join(ROOT, "tsconfig.json"),
      // A mutant may leave names unused, which does not change behaviour.
      compilerOptions: {
        noUnusedLocals: false,
        noUnusedParameters: false,
        // Each round after the first checks what it changed.
        incremental: true,
        tsBuildInfoFile: join(folder, "types.json"),
      },
      include: [...folders],
    }),
  );
  let left: readonly Parameters<typeof patched>[0][] = [...MUTANTS, ...TESTED_MUTANTS];
  while (left.length > 0) {
    const { texts, others } = together(left);
    expect(others.length, "none of these mutants fits").toBeLessThan(left.length);
    left = others;
    for (const [file, text] of texts) {
      mkdirSync(join(folder, file, ".."), { recursive: true });
      writeFileSync(join(folder, file), text);
    }
    const { stdout } = spawnSync(join(ROOT, "node_modules/.bin/tsc"), ["-p", folder, "--pretty", "false"], {
      encoding: "utf8",
    });
    expect(stdout).toBe("");
    for (const file of texts.keys()) cpSync(join(ROOT, file), join(folder, file));
  }
});
