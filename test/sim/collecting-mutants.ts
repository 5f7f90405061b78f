// Deliberate defects in which checkpoints are downloaded, kept, shared by nodes and removed. Each is named by the invariant of the head that
// it breaks, and has the tests that must notice it.

import { forRule, single, type TestedMutant } from "./mutants.ts";

const FOLDER = "test/steps/checkpoints";
const collector = single("collector", "src/steps/checkpoints/collector.ts", [`${FOLDER}/collector.test.ts`]);
const files = single("collector", "src/steps/checkpoints/files.ts", [`${FOLDER}/collector.test.ts`]);
const growing = single("collector", "src/steps/checkpoints/growing-files.ts", [
  `${FOLDER}/growing-files.whole.test.ts`,
]);
const given = single("given files", "src/steps/checkpoints/given-files.ts", [`${FOLDER}/given-files.test.ts`]);
const named = single("named files", "src/steps/checkpoints/named-files.ts", [
  "test/engine/checkpoint-removals.test.ts",
]);
const retention = single("retention", "src/steps/checkpoints/retention.ts", [`${FOLDER}/retention.test.ts`]);
const sets = single("sets", "src/steps/checkpoints/sets.ts", [`${FOLDER}/shares.whole.test.ts`]);
const shares = single("shares", "src/steps/checkpoints/shares.ts", [`${FOLDER}/shares.whole.test.ts`]);

export const COLLECTING_MUTANTS: readonly TestedMutant[] = [
  collector(
    "K4: an unchanged file is downloaded again",
    "return !this.#growing.has(file.path) && isCopyOf(",
    "return this.#growing.has(file.path) && isCopyOf(",
  ),
  forRule(
    "src/steps/checkpoints/collector.ts K4",
    given(
      "K4: the checkpoint from which the run resumed is downloaded again",
      "return given !== undefined && given.size === file.size",
      "return given !== undefined && given.size < 0",
      [`${FOLDER}/resume.test.ts`],
    ),
  ),
  given(
    "GV1: a given file that the script left as it was is missing here",
    "return this.#own.has(file.path) &&",
    "return !this.#own.has(file.path) &&",
  ),
  given(
    "GV2: a node waits for given files of other nodes",
    "if (isGiven && this.#others.has(file.path)) continue;",
    "",
  ),
  forRule(
    "src/steps/checkpoints/given-files.ts GV3",
    sets(
      "GV3: a given checkpoint counts as the run's own before the run has saved it",
      "if (given.has(now)) return false;",
      "",
      [`${FOLDER}/given-files.test.ts`],
    ),
  ),
  forRule(
    "src/steps/checkpoints/collector.ts K6",
    files("K6: a checkpoint is readable for others", "await handle.chmod(0o600);", "await handle.chmod(0o644);"),
  ),
  forRule(
    "src/steps/checkpoints/collector.ts K6",
    files(
      "K6: a local symlink in the way of a folder is followed",
      "if (!(await lstat(folder)).isDirectory()) {",
      "if ((await lstat(folder)).isFile()) {",
    ),
  ),
  forRule(
    "src/steps/checkpoints/collector.ts K7",
    growing(
      "K7: a file that keeps changing counts as complete",
      "isProven ? record : { ...record, in_progress: true }",
      "isProven ? { ...record } : record",
    ),
  ),
  named(
    "NF1: the files below a folder do not count",
    "for (const name of await readdir(at)",
    "for (const name of at === path ? [] : await readdir(at)",
  ),
  named("NF3: a file that has another hard link counts as freed", "?? 0) >= file.links)", "?? 0) > 0)"),
  retention(
    "KC2: files that belong to no checkpoint are removed",
    "const names: string[] = [];\n    const uncopied",
    "const names: string[] = surplus.length === 0 ? [] : listing.map(({ path }) => path);\n    const uncopied",
  ),
  retention(
    "KC5: the other nodes keep what node 0 has removed",
    "if (removed.length === 0) return [];",
    "if (removed.length >= 0) return [];",
    [`${FOLDER}/keep-checkpoints.whole.test.ts`],
  ),
  forRule("src/steps/checkpoints/retention.ts KC4", {
    name: "retention KC4: a run that resumes reads the files of the other run",
    patches: [
      {
        file: "src/steps/checkpoints/resume.ts",
        find: "return { ...resume, files };\n}\n\n/** Puts the checkpoint",
        replace: "return resume;\n}\n\n/** Puts the checkpoint",
      },
    ],
    tests: [`${FOLDER}/sets.test.ts`, `${FOLDER}/resume.test.ts`],
  }),
  sets(
    "U4: the version that every node has goes when a name is saved again",
    "of === null ? undefined : await this.#stillNeeded(before, of)",
    "of !== null ? undefined : await this.#stillNeeded(before, undefined)",
  ),
  shares(
    "SH1: a share of an earlier version counts",
    "find(({ of }) => of === version.folder)",
    "find(({ of }) => of !== undefined)",
  ),
  shares(
    "SH2: a node that had a share before has none",
    "if (scheme.some(({ files }) => files.length > 0)) return null;",
    "",
  ),
  shares(
    "SH3: the files' names say nothing about the other nodes",
    "some(({ path }) => RANK.test(",
    "some(({ path }) => /^$/.test(",
  ),
  forRule("src/steps/place.ts W8", {
    name: "place W8: a candidate whose image cannot start is asked",
    patches: [
      {
        file: "src/domain/candidates.ts",
        find: "return same.length === 0 || isSecond ? [index] : [];",
        replace: "return same.length === 0 || isSecond || !twice ? [index] : [];",
      },
    ],
    tests: ["test/machines/bad-images.test.ts"],
  }),
  forRule("src/steps/rental/machine-fit.ts D3", {
    name: "machine fit D3: a machine of the user's own is refused",
    patches: [
      {
        file: "src/steps/await-ssh.ts",
        find: "if (owned && fit.unfit !== null) {",
        replace: "if (fit.unfit !== null) {",
      },
    ],
    tests: ["test/steps/rental/machine-fit.test.ts > A machine that svc does not own"],
  }),
];
