import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { fingerprint, refold } from "../../src/engine/journal.ts";
import { NO_FURTHER_PLACEMENTS } from "../../src/machines/job-context.ts";
import { JOB_MACHINE_VERSION, jobMachine } from "../../src/machines/job-machine.ts";
import { loadStored } from "../../src/machines/versions.ts";
import { definitionText } from "./fingerprint.ts";
import { corpusFolder, type CorpusEntry } from "./make-corpus.ts";
import { after, errorOf, inState, STATES, textOf } from "./walk.ts";

const versions = Array.from({ length: JOB_MACHINE_VERSION }, (_, i) => i + 1);
const read = (version: number, state: string) =>
  JSON.parse(readFileSync(join(corpusFolder, `v${version}`, `${state}.json`), "utf8")) as CorpusEntry;
const corpus = versions.flatMap((version) =>
  readdirSync(join(corpusFolder, `v${version}`)).map(
    (file) => [version, file.replace(".json", ""), read(version, file.replace(".json", ""))] as const,
  ),
);
const today = (
  change: (stored: Record<string, unknown> & { context: Record<string, unknown> }) => void = () => {},
): string => {
  const stored = JSON.parse(textOf(inState("running"))) as Parameters<typeof change>[0];
  change(stored);
  return JSON.stringify(stored);
};

describe("snapshots that users have stored", () => {
  it("are kept here for every version and every state that it had", () => {
    for (const version of versions) expect(readdirSync(join(corpusFolder, `v${version}`)).length).toBeGreaterThan(0);
    expect(
      corpus
        .filter(([version]) => version === JOB_MACHINE_VERSION)
        .map(([, state]) => state)
        .toSorted(),
    ).toEqual(STATES.toSorted());
  });

  it.each(corpus)("load and continue: version %i, %s", (version, state, { snapshot }) => {
    const loaded = loadStored(version, snapshot);
    if (!loaded.ok) throw new TypeError(loaded.why);
    expect(loaded.migrated).toBe(version !== JOB_MACHINE_VERSION);
    const resolved = jobMachine.resolveState(loaded.snapshot);
    if (version === JOB_MACHINE_VERSION) expect([textOf(resolved), resolved.value]).toEqual([snapshot, state]);
    if (state !== "terminal")
      expect(after(resolved, { type: "job.kill", error: errorOf("cancelled_by_user") }).value).toBe(
        state === "waiting" ? "terminal" : "terminating",
      );
  });

  it.each(corpus.filter(([version]) => version === JOB_MACHINE_VERSION))(
    "folds from its journal to the very same bytes: version %i, %s",
    (_, __, entry) => {
      const rows = entry.journal.map((row) => ({ ...row, job_id: "job1", epoch: 1 }));
      expect(refold(rows)).toEqual({ text: entry.snapshot, differsAt: null });
      expect(fingerprint(JSON.parse(entry.snapshot) as { value: unknown; context: unknown }).hash).toBe(entry.hash);
    },
  );
});

it.each(corpus.filter(([version]) => version < 3))(
  "a run of before there were placements is in its first one, and no other follows: version %i, %s",
  (version, _, { snapshot }) => {
    const loaded = loadStored(version, snapshot);
    if (!loaded.ok) throw new TypeError(loaded.why);
    const { placement, candidate, rules, retries, preemptions } = loaded.snapshot.context;
    expect([placement, candidate, retries, preemptions]).toEqual([1, 0, 0, 0]);
    expect(rules).toEqual(NO_FURTHER_PLACEMENTS);
  },
);

describe("snapshots that are refused, with a reason", () => {
  it.each<[string, number, string, RegExp]>([
    ["a newer version", JOB_MACHINE_VERSION + 1, today(), /written by machine version \d+, this program knows/],
    ["a version that never was", 0, today(), /no migration from machine version 0 to 1/],
    ["a state that does not exist", 1, today((s) => (s["value"] = "jogging")), /state "jogging" does not exist/],
    ["a state within a state", 1, today((s) => (s["value"] = { running: "fast" })), /state .* does not exist/],
    ["a state that every object has", 1, today((s) => (s["value"] = "constructor")), /does not exist/],
    ["a key of the context missing", 1, today((s) => delete s.context["outcome"]), /today's keys/],
    ["a key of the context too many", 1, today((s) => (s.context["mood"] = "good")), /today's keys/],
    ["no context", 1, JSON.stringify({ value: "running" }), /today's keys/],
    ["a context that is a list", 1, JSON.stringify({ value: "running", context: [] }), /today's keys/],
    ["bad JSON", 1, today().slice(0, -2), /not JSON/],
    ["no JSON at all", 1, "", /not JSON/],
    ["null", 1, "null", /does not exist/],
    ["a number", 1, "7", /does not exist/],
  ])("%s", (_, version, text, why) => {
    expect(loadStored(version, text)).toEqual({ ok: false, why: expect.stringMatching(why) as string });
  });
});

describe("a chain of migrations", () => {
  type Chain = NonNullable<Parameters<typeof loadStored>[2]>;
  const note =
    (word: string): Chain[number] =>
    (old) => ({ ...old, context: { ...old.context, job_id: `${String(old.context["job_id"])} ${word}` } });
  const chain: Chain = { 1: note("one"), 2: note("two"), 3: note("three") };
  const jobId = (version: number, latest: number) => {
    const loaded = loadStored(version, today(), chain, latest);
    return loaded.ok ? [loaded.snapshot.context.job_id, loaded.migrated] : loaded.why;
  };

  it("is applied in order, from the stored version to today's", () => {
    expect(jobId(1, 4)).toEqual(["job1 one two three", true]);
    expect(jobId(3, 4)).toEqual(["job1 three", true]);
    expect(jobId(4, 4)).toEqual(["job1", false]);
  });

  it("with a gap is refused", () => {
    expect(jobId(1, 5)).toMatch(/no migration from machine version 4 to 5/);
  });

  it("refuses this one job if it throws", () => {
    const bad: Chain = {
      1: (old) => ({ value: old.value, context: (old.context["nothing"] as { deep: Record<string, unknown> }).deep }),
    };
    expect(loadStored(1, today(), bad, 2)).toEqual({
      ok: false,
      why: expect.stringMatching(/could not be brought from machine version 1 to 2/) as string,
    });
  });

  it("is refused if it leads to a state that does not exist", () => {
    expect(loadStored(1, today(), { 1: (old) => ({ ...old, value: "gone" }) }, 2)).toMatchObject({ ok: false });
  });
});

describe("the definition", () => {
  it("belongs to its version", () => {
    const file = join(corpusFolder, `fingerprint-v${JOB_MACHINE_VERSION}.txt`);
    const recorded = existsSync(file) ? readFileSync(file, "utf8") : "";
    expect(
      definitionText(),
      `The job machine is not what version ${JOB_MACHINE_VERSION} was. Stored jobs depend on it: raise JOB_MACHINE_VERSION in src/machines/job-machine.ts, ` +
        "add a migration in src/machines/versions.ts, and run `npx node test/machines/make-corpus.ts`. Where version 1 was never released, delete " +
        "what the script wrote for it and run it again.",
    ).toBe(recorded);
  });
});
