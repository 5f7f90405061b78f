// Data of a run on this computer, from `svc data add` to the script that reads it.

import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { until, Workplace } from "../cli/serving.ts";

let at: Workplace;
beforeEach(() => void (at = new Workplace()));
afterEach(() => at.close());

const READ = `import os, pathlib
root = pathlib.Path(os.environ["SVC_DATA_DIR"])
for path in sorted(p for p in root.rglob("*") if p.is_file()) or sorted(root.glob("*/*")):
    print(path.relative_to(root), path.read_text())
print(sorted(os.listdir(root)))
`;

test("a run finds the data that it names, in the state of its submission", async () => {
  at.file("read.py", READ);
  for (const folder of ["one", "two/deep"]) mkdirSync(join(at.root, folder), { recursive: true });
  writeFileSync(join(at.root, "one/a"), "alpha");
  writeFileSync(join(at.root, "two/deep/b"), "beta");
  writeFileSync(join(at.root, "c"), "gamma");
  expect(at.svc("data", "add", "single", join(at.root, "one")).code).toBe(0);
  expect(at.svc("data", "add", "several", join(at.root, "two"), join(at.root, "c")).code).toBe(0);
  const served = await at.serve();
  const submit = async (data: string[], entrypoint = "read.py") => {
    const body = JSON.stringify({ spec: { entrypoint, data, project_dir: at.project } });
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${served.url}/jobs`, { method: "POST", headers, body });
    return {
      status: answer.status,
      json: (await answer.json()) as { id: string; code: string; errors: { field: string }[] },
    };
  };
  const { json } = await submit(["several", "single", "single"]);
  const followed = at.svc("logs", "-f", json.id, "--exit-status");
  if (followed.code !== 0)
    throw new Error(`${followed.out}${followed.err}${at.svc("timeline", json.id, "--json").out}`);
  await until(async () => (await at.status(served, json.id)) === "succeeded", "the run is over");
  const lines = at.svc("logs", json.id).out.trimEnd().split("\n");
  expect(lines.at(-1)).toBe("['several', 'single']");
  expect(lines).toEqual(expect.arrayContaining(["several/c gamma"]));
  const steps = (await (await fetch(`${served.url}/jobs/${json.id}/timeline`)).json()) as {
    steps: { step: string; detail: { data?: Record<string, { files: number; sha256: string }> } }[];
  };
  expect(steps.steps.find((s) => s.step === "sync")?.detail.data).toMatchObject({
    several: { files: 2 },
    single: { files: 1 },
  });
  // The run's folder and its links are gone; the files behind the links are not.
  await until(() => !existsSync(join(at.home, "runs", json.id)), "the run's folder is removed");
  expect(existsSync(join(at.root, "one/a"))).toBe(true);

  const unknown = await submit(["single", "nothing"]);
  expect(unknown).toMatchObject({
    status: 400,
    json: {
      code: "data_unavailable",
      errors: [{ field: "spec.data[1]" }],
      hint: expect.stringContaining("svc data ls"),
    },
  });
  writeFileSync(join(at.root, "one/a"), "changed");
  const changed = { code: "data_unavailable", hint: expect.stringContaining("svc data verify NAME") };
  expect(await submit(["single"])).toMatchObject({ status: 400, json: changed });
  expect(JSON.parse(at.svc("data", "verify", "single", "--json").out).reports[0].changed).toHaveLength(1);
  expect(at.svc("data", "add", "single", join(at.root, "one")).code).toBe(0);
  expect((await submit(["single"])).status).toBe(201);
  rmSync(join(at.root, "c"));
  expect((await submit(["several"])).json.code).toBe("data_unavailable");
});
