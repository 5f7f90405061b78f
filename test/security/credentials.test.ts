// The files of a home and who may read them, under any umask; symlinks in place of the files that hold secrets; and the
// secrets that a run may name.

import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Place, type Served } from "../process/harness.ts";

let place: Place;
beforeEach(() => {
  place = Place.own("each starts with another umask or home");
  place.file("train.py", 'print("trained", flush=True)\n');
});
afterEach(() => place.close());

async function send(served: Served, method: string, path: string, body: unknown) {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${served.url}${path}`, { method, headers, body: JSON.stringify(body) });
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

it("no file or folder of the home is open to others, even under an open umask", async () => {
  const served = await place.serve({ under: ["sh", "-c", 'umask 000; exec "$@"', "sh"] });
  await send(served, "PUT", "/v1/credentials/hub", { token: "hf_0123456789abcdef" });
  const tracking = { tracker: { secret_ref: "literal://tracker-key-0123", project: "p" } };
  await send(served, "PUT", "/v1/registry", { registry: { tracking } });
  await served.ended(await served.submit({ entrypoint: "train.py", env: { API_KEY: "literal" } }));
  const open = [
    place.home,
    ...readdirSync(place.home, { recursive: true, encoding: "utf8" }).map((p) => join(place.home, p)),
  ]
    .filter((path) => existsSync(path) && (statSync(path).mode & 0o077) !== 0)
    .map((path) => `${path} ${(statSync(path).mode & 0o777).toString(8)}`);
  expect(existsSync(join(place.home, "registry.json")) && existsSync(join(place.home, "credentials.json"))).toBe(true);
  expect(open).toEqual([]);
});

it("files of a local script get the umask with which the control plane was started", async () => {
  place.file("makes.py", 'open("made.txt", "w").close(); open("made.sh", "w").close(); import os; os.mkdir("made")');
  const served = await place.serve({ under: ["sh", "-c", 'umask 027; exec "$@"', "sh"] });
  await served.ended(await served.submit({ entrypoint: "makes.py" }));
  const modes = ["made.txt", "made"].map((name) => (statSync(join(place.project, name)).mode & 0o777).toString(8));
  expect(modes).toEqual(["640", "750"]);
});

it.each(["credentials.json", "registry.json"])(
  "a link in place of %s is neither read nor written through",
  async (name) => {
    const target = join(place.root, "elsewhere.json");
    writeFileSync(target, '{"hub": {"token": "somebody-elses"}}', { mode: 0o644 });
    mkdirSync(place.home, { mode: 0o700 });
    symlinkSync(target, join(place.home, name));
    const served = await place.serve();
    const path = name === "registry.json" ? "/v1/registry" : "/v1/credentials/hub";
    const body = name === "registry.json" ? { registry: {} } : { token: "hf_0123456789abcdef" };
    const answer = await send(served, "PUT", path, body);
    expect([answer.status, answer.body["code"]]).toEqual([500, "credentials_unusable"]);
    expect(JSON.stringify(answer.body)).not.toContain("somebody-elses");
    expect(readFileSync(target, "utf8")).toBe('{"hub": {"token": "somebody-elses"}}');
    expect(statSync(target).mode & 0o777).toBe(0o644);
  },
);

describe("a run", () => {
  const shared = new Place();
  let served: Served;
  beforeAll(async () => {
    shared.file("train.py", 'print("trained", flush=True)\n');
    served = await shared.serve();
  });
  afterAll(() => shared.close());

  it.each([
    "file:///etc/hostname",
    "literal://x",
    "store://../../etc/passwd",
    "store://__proto__/constructor/name",
    "env://NOT_SET",
  ])("may not name %s, and nothing is started", async (reference) => {
    const before = await served.text("/jobs");
    const spec = { entrypoint: "train.py", project_dir: shared.project, env: { SECRET: reference } };
    const answer = await send(served, "POST", "/jobs", { spec });
    expect(answer.status).toBe(400);
    expect(JSON.stringify(answer.body["errors"])).toContain("spec.env.SECRET");
    expect(await served.text("/jobs")).toBe(before);
  });
});
