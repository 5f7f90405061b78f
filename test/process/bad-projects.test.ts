// Projects that cannot be run: svc gives one clear error that names the field, and creates nothing.

import { chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { hashes, Place, type Served } from "./harness.ts";

const place = new Place();
let served: Served;
beforeAll(async () => {
  place.file("ok.py", 'print("ok")\n');
  place.file("plain.bin", "no program");
  chmodSync(join(place.project, "plain.bin"), 0o644);
  mkdirSync(join(place.project, "folder.py"));
  writeFileSync(join(place.root, "outside.py"), "print('out')\n");
  symlinkSync(join(place.root, "outside.py"), join(place.project, "link.py"));
  symlinkSync("nowhere.py", join(place.project, "dangling.py"));
  symlinkSync("/etc", join(place.project, "etc"));
  served = await place.serve();
});
afterAll(() => place.close());

/**
 * Everything that a refused submission may not change: rows, and all files but SQLite's own and the holder's record,
 * which gets its address a moment after the control plane has announced it.
 */
const state = (): unknown => ({
  rows: place.db((db) =>
    ["job", "journal", "effect", "attempt", "machine", "timer", "feed"].map((t) =>
      db.prepare(`SELECT count(*) FROM ${t}`).pluck().get(),
    ),
  ),
  files: Object.keys(hashes(place.home, /^(svc\.db|holder\.json)/)),
  runs: readdirSync(join(place.home, "runs")),
});

async function refused(
  spec: Record<string, unknown>,
  code: string,
  field: string,
  by: Served = served,
): Promise<string> {
  const before = state();
  const { status, body } = await by.post("/jobs", { spec });
  expect([status, body["code"]], JSON.stringify(body)).toEqual([400, code]);
  const errors = body["errors"] as { field: string; message: string }[];
  expect(errors.map((e) => e.field)).toEqual([field]);
  expect(String(body["hint"]).length).toBeGreaterThan(10);
  expect(state()).toEqual(before);
  return String(body["detail"]);
}

it.each([
  ["missing.py", "entrypoint_not_found"],
  ["../outside.py", "entrypoint_outside_project"],
  ["folder/../../outside.py", "entrypoint_outside_project"],
  ["/etc/hostname", "entrypoint_outside_project"],
  ["link.py", "entrypoint_outside_project"],
  ["etc/hostname", "entrypoint_outside_project"],
  ["dangling.py", "entrypoint_not_found"],
  ["folder.py", "entrypoint_not_runnable"],
  [".", "entrypoint_not_runnable"],
  ["plain.bin", "entrypoint_not_runnable"],
  ["-m ..outside", "entrypoint_not_runnable"],
])("entrypoint %s: %s", async (entrypoint, code) => {
  const told = await refused({ entrypoint }, code, "spec.entrypoint");
  expect(told).toContain(entrypoint.split("/")[0] as string);
});

it.each([
  ["the root of the file system", () => "/"],
  ["the user's home", () => homedir()],
  ["a folder above the home of svc", () => place.root],
  ["the home of svc itself", () => place.home],
])("project_dir is %s", async (_, folder) => {
  writeFileSync(join(place.root, "ok.py"), "print(1)\n");
  await refused({ entrypoint: "ok.py", project_dir: folder() }, "project_dir_refused", "spec.project_dir");
});

it.each([
  ["missing", () => join(place.root, "nowhere")],
  ["a file", () => join(place.project, "ok.py")],
])("project_dir is %s", async (_, folder) => {
  await refused({ entrypoint: "ok.py", project_dir: folder() }, "project_dir_refused", "spec.project_dir");
});

it("a project below a symlink to a forbidden folder is refused, too", async () => {
  const link = join(place.root, "link-to-parent");
  symlinkSync(dirname(place.home), link);
  await refused({ entrypoint: "ok.py", project_dir: link }, "project_dir_refused", "spec.project_dir");
});

it("a missing secret is refused by its name", async () => {
  const told = await refused(
    { entrypoint: "ok.py", env: { TOKEN: "env://SVC_TEST_NOT_SET" } },
    "secret_not_found",
    "spec.env.TOKEN",
  );
  expect(told).toContain("SVC_TEST_NOT_SET");
  expect((await served.get<{ jobs: unknown[] }>("/jobs")).jobs).toEqual([]);
});

it("a missing Python is reported once, with the remedy, before anything is made", async () => {
  const other = Place.own("it has another Python");
  other.file("ok.py", "print(1)\n");
  try {
    const without = await other.serve({ env: { SVC_PYTHON: "/nonexistent/python" } });
    const { status, body } = await without.post("/jobs", { spec: { entrypoint: "ok.py" } });
    expect(status).toBeGreaterThanOrEqual(400);
    expect(body["code"]).toBe("python_missing");
    expect(JSON.stringify(body)).toContain("/nonexistent/python");
    expect((await without.get<{ jobs: unknown[] }>("/jobs")).jobs).toEqual([]);
    expect(readdirSync(join(other.home, "runs"))).toEqual([]);
    expect(readdirSync(join(other.home, "code"))).toEqual([]);
  } finally {
    await other.close();
  }
});
