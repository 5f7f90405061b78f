// The checkpoint from which each placement of a job resumes, over real files in a home.

import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { homeLayout } from "../../../src/platform/home-layout.ts";
import { RunSpec } from "../../../src/schemas/spec.ts";
import { Resumes } from "../../../src/steps/checkpoints/resume-choices.ts";

const AT = Date.parse("2026-01-01T00:00:00Z");
let home: string;
let placement: number;
let resumes: Resumes;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "svc-choices-"));
  placement = 1;
  resumes = open();
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

/** `ours` resumes from `theirs`. */
const specOf = (job: string): RunSpec | null =>
  job === "ours" || job === "theirs"
    ? RunSpec.parse({ entrypoint: "train.py", ...(job === "ours" && { resume_from: "theirs" }) })
    : null;
const open = (): Resumes => new Resumes(home, specOf, () => placement);

function save(job: string, name: string, text: string, minute: number): void {
  const folder = homeLayout.checkpoints(home, job);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, name), text);
  utimesSync(join(folder, name), AT / 1_000 + minute * 60, AT / 1_000 + minute * 60);
  resumes.announce(job, 0, [{ path: name, step: minute, at: null }]);
}
/** The checkpoint that the placement resumes from, with the bytes that its machine would get. */
async function chosen(): Promise<[string, string, string] | null> {
  const found = await resumes.of("ours");
  const [file] = found?.files ?? [];
  return found === null || file === undefined
    ? null
    : [found.job, found.name, readFileSync(join(file.root, file.path), "utf8")];
}

test("an announcement counts after one that a full disk cut in the middle of its line", async () => {
  save("theirs", "a.pt", "a", 1);
  appendFileSync(homeLayout.announced(home, "theirs"), '{"path":"b.pt","st');
  save("theirs", "c.pt", "c", 2);
  expect([...(await resumes.announced("theirs")).times.keys()]).toEqual(["a.pt", "c.pt"]);
});

test("however often a script announces, every announcement counts, in a file of bounded length", async () => {
  const names = Array.from({ length: 20_000 }, (_, i) => ({ path: `${"folder/".repeat(10)}${i % 3}`, step: i, at: i }));
  for (let i = 0; i < 4; i++) resumes.announce("theirs", 0, names);
  resumes.announce("theirs", 0, [{ path: "last", step: 7, at: 8 }]);
  const { times, steps, at, placements } = await resumes.announced("theirs");
  expect([...times.values()]).toEqual([26_668, 26_668, 26_664, 1]);
  expect([steps.get("last"), at.get("last"), placements.get("last")]).toEqual([7, 8, 1]);
  resumes.announce("theirs", 0, names.slice(0, 1));
  expect(statSync(homeLayout.announced(home, "theirs")).size).toBeLessThan(5 * 1024 * 1024);
  expect((await resumes.announced("theirs")).times.get(names[0]!.path)).toBe(26_669);
});

describe("a job that resumes from another one, and loses its machine before its own first checkpoint", () => {
  beforeEach(async () => {
    save("theirs", "step_10", "ten", 10);
    expect(await chosen()).toEqual(["theirs", "step_10", "ten"]);
  });

  test("has something to continue from, so that another machine is rented", async () => {
    expect(await resumes.newestOf("ours")).toBe(`theirs:step_10@${AT + 600_000}`);
  });

  test.each<[string, () => void]>([
    ["the other job is removed", () => rmSync(homeLayout.checkpoints(home, "theirs"), { recursive: true })],
    ["the other job saves more", () => save("theirs", "step_20", "twenty", 20)],
    ["the other job saves under the same name", () => save("theirs", "step_10", "again", 30)],
    ["nothing else happens", () => undefined],
  ])("continues from the same checkpoint if meanwhile %s", async (_what, change) => {
    // As a save does: a new file under the name, so that the kept hard link has the bytes of then.
    rmSync(join(homeLayout.checkpoints(home, "theirs"), "step_10"));
    save("theirs", "step_10", "ten", 10);
    change();
    placement = 2;
    expect(await chosen()).toEqual(["theirs", "step_10", "ten"]);
    // Also the third one, after a restart of the control plane, when the second saved nothing.
    resumes = open();
    placement = 3;
    expect(await chosen()).toEqual(["theirs", "step_10", "ten"]);
  });

  test("continues from its own checkpoint as soon as it has one", async () => {
    save("ours", "step_11", "eleven", 11);
    expect(await resumes.newestOf("ours")).toBe(`step_11@${AT + 660_000}`);
    placement = 2;
    expect(await chosen()).toEqual(["ours", "step_11", "eleven"]);
  });
});

test("A job without a checkpoint, and without another job, starts its next placement from the beginning", async () => {
  const alone = new Resumes(
    home,
    () => RunSpec.parse({ entrypoint: "train.py" }),
    () => 2,
  );
  expect([await alone.of("alone"), await alone.newestOf("alone")]).toEqual([null, null]);
});
