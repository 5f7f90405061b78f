// A token that people put in the wrong place: in arguments, a label, a name. The run receives it unchanged; no record,
// list, event, message, command output or file of the home shows it.

import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { filesOf, found, traces } from "../security/canary.ts";
import { Place, until, type Served } from "./harness.ts";

const toClose: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of toClose.splice(0).reverse()) await close();
});

const GETS = ["", "/logs", "/metrics", "/series", "/timeline", "/checkpoints", "/code"];
const ASIDE = [
  "/jobs",
  "/jobs?q=a",
  "/v1/machines",
  "/v1/providers",
  "/v1/credentials",
  "/v1/health",
  "/v1/summary",
  "/openapi.json",
];
const COMMANDS = (id: string) => [
  ["jobs"],
  ["jobs", "--json"],
  ["logs", id],
  ["timeline", id],
  ["timeline", id, "--json"],
  ["code", "ls", id],
  ["doctor"],
];

function feedOf(served: Served): string[] {
  const feed: string[] = [];
  const socket = new WebSocket(`${served.url.replace("http", "ws")}/v1/events?since=0`);
  socket.addEventListener("message", (e) => feed.push(String(e.data)));
  toClose.push(() => socket.close());
  return feed;
}

async function put(served: Served, path: string, body: unknown): Promise<void> {
  const answer = await fetch(served.url + path, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  expect(answer.status, await answer.text()).toBe(200);
}

async function shownOf(served: Served, place: Place, id: string): Promise<(readonly [string, Buffer])[]> {
  const answers: (readonly [string, Buffer])[] = [];
  for (const path of [...GETS.map((end) => `/jobs/${id}${end}`), ...ASIDE])
    answers.push([path, Buffer.from(await served.text(path))]);
  for (const argv of COMMANDS(id)) {
    const { out, err } = place.svc(...argv);
    answers.push([argv.join(" "), Buffer.from(out + err)]);
  }
  return answers;
}

const SCRIPT = `import json, os, sys
import svc
with open(sys.argv[1], "w") as file:
    json.dump({"args": sys.argv, "env": dict(os.environ)}, file)
token = sys.argv[2].partition("=")[2]
print("the token is", token, flush=True)
svc.log({"loss/" + token: 1.0}, step=0)
with open(os.path.join(os.environ["SVC_CHECKPOINT_DIR"], "w-" + token), "w") as file:
    file.write("weights")
sys.exit("it fails with " + token)
`;

describe("a token in every field of a spec", () => {
  it.each([
    ["that is a credential", true],
    ["that only its name in the arguments gives away", false],
  ])("%s reaches the run and is shown nowhere", async (_, saved) => {
    const place = Place.own("a saved secret masks everything");
    toClose.push(() => place.close());
    const token = `tk_${randomBytes(18).toString("hex")}`;
    const served = await place.serve();
    const feed = feedOf(served);
    if (saved) await put(served, "/v1/credentials/hub", { token });
    const entrypoint = `train-${token}.py`;
    place.file(entrypoint, SCRIPT);
    const seen = join(place.root, "seen.json");
    const body = {
      label: `run with ${token}`,
      spec: {
        entrypoint,
        args: [seen, `--token=${token}`, "--header", `Bearer ${token}`],
        install: `echo installed ${token}`,
        env: { PLAIN: `x${token}`, [`N_${token}`]: "1" },
        region: token,
        image: `registry.example/x:${token}`,
      },
    };
    const made = await served.post("/jobs", body);
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    const id = String(made.body["id"]);
    const record = await served.ended(id);
    expect(record).toMatchObject({ status: "failed", exit_code: 1 });
    const given = JSON.parse(readFileSync(seen, "utf8")) as { args: string[]; env: Record<string, string> };
    expect(given.args.slice(2)).toEqual([`--token=${token}`, "--header", `Bearer ${token}`]);
    expect(given.env).toMatchObject({ PLAIN: `x${token}` });
    expect(record.args).toContain("--token=***redacted***");
    expect(record.label).toBe("run with ***redacted***");

    const refused = await served.post("/jobs", {
      spec: { entrypoint: `no-${token}.py`, args: [`--token=${token}`] },
    });
    expect(refused.status).toBeGreaterThanOrEqual(400);
    const plan = await served.post("/v1/plan", {
      spec: { entrypoint: `no-${token}.py`, args: [`--token=${token}`] },
    });
    expect(plan.status).toBe(200);
    const again = await served.post("/jobs", { spec: { entrypoint: "train.py", args: record.args } });
    expect(again.status).toBe(400);
    expect(JSON.stringify(again.body)).toContain("spec.args");

    const shown = await shownOf(served, place, id);
    served.signal("SIGTERM");
    await served.exited;
    const marks = traces([token]);
    const told = [feed, [made, refused, plan].map((answer) => JSON.stringify(answer.body)), [served.out, served.err]];
    expect(feed.length).toBeGreaterThan(3);
    expect(found(shown, marks)).toEqual([]);
    expect(
      found(
        told.map((texts, i) => [`told ${i}`, Buffer.from(texts.join("\n"))] as const),
        marks,
      ),
    ).toEqual([]);
    const store = join(place.home, "credentials.json");
    expect(
      found(
        [...filesOf(place.home)].filter(([path]) => path !== store),
        marks,
      ),
    ).toEqual([]);
  });
});

it("A credential that is saved after a run has ended masks the run's output from then on", async () => {
  const place = Place.own("a saved secret masks everything");
  toClose.push(() => place.close());
  const token = randomBytes(18).toString("hex");
  place.file("say.py", `import svc\nprint("it is ${token} and more")\nsvc.log({"loss/${token}": 1.0}, step=0)\n`);
  const served = await place.serve();
  const made = await served.post("/jobs", { label: token, spec: { entrypoint: "say.py", args: [`x${token}`] } });
  const id = String(made.body["id"]);
  const before = await served.ended(id);
  expect(before.label).toBe(token);
  const whole = await served.text(`/jobs/${id}/logs`);
  await put(served, "/v1/credentials/hub", { token });
  const marks = traces([token]);
  expect(found(await shownOf(served, place, id), marks)).toEqual([]);
  // Offsets of the log stay the same, and no range of it shows half a secret.
  const masked = await served.text(`/jobs/${id}/logs`);
  expect(masked).toBe(whole.replace(token, "*".repeat(token.length)));
  const middle = whole.indexOf(token) + 10;
  expect(await served.text(`/jobs/${id}/logs?offset=${middle}`)).toBe(masked.slice(middle));
  const feed = feedOf(served);
  await until(() => feed.some((line) => line.includes("job.created")), "the feed is replayed");
  expect(found([["feed", Buffer.from(feed.join("\n"))]], marks)).toEqual([]);
  expect(existsSync(place.home)).toBe(true);
});

it("the address of a target is masked in the first line of a run's log, although nothing was sent yet", async () => {
  const place = Place.own("a saved secret masks everything");
  toClose.push(() => place.close());
  const token = `tk${randomBytes(12).toString("hex")}`;
  const env = { TEAM_HOOK: `https://hooks.example/services/T0/B0/${token}` };
  const first = await place.serve({ env });
  await put(first, "/v1/notifications/targets/team", {
    target: { kind: "slack", secret_ref: "env://TEAM_HOOK", events: ["stuck"] },
  });
  first.signal("SIGTERM");
  await first.exited;
  const served = await place.serve({ env });
  place.file("says.py", 'import os\nprint(os.environ["TEAM_HOOK"], os.environ["TEAM_HOOK"][-26:])\n');
  const id = await served.submit({ entrypoint: "says.py" });
  await served.ended(id);
  expect(readFileSync(join(place.home, "logs", `${id}.log`), "utf8")).toContain("***redacted*** ***redacted***");
  expect(found(filesOf(place.home), traces([token]))).toEqual([]);
});

it("a key that is replaced while a run goes on is masked in what the run prints afterwards, and so is the one before", async () => {
  const place = Place.own("a saved secret masks everything");
  toClose.push(() => place.close());
  const key = join(place.root, "hub-key");
  const [first, second] = [0, 1].map(() => `tk_${randomBytes(18).toString("hex")}`) as [string, string];
  writeFileSync(key, first);
  const served = await place.serve();
  await put(served, "/v1/registry", { registry: { integrations: { hub: { token_ref: `file://${key}` } } }, use: [] });
  place.file(
    "says.py",
    `import time, pathlib
key = pathlib.Path(${JSON.stringify(key)})
first = key.read_text()
print("first", first, flush=True)
while key.read_text() in ("", first):
    time.sleep(0.05)
print("then", key.read_text(), first)
`,
  );
  const id = await served.submit({ entrypoint: "says.py" });
  await until(async () => (await served.text(`/jobs/${id}/logs`)).includes("first"), "the first line is there");
  writeFileSync(key, second);
  await served.ended(id);
  const log = readFileSync(join(place.home, "logs", `${id}.log`), "utf8");
  expect(log).toBe("first ***redacted***\nthen ***redacted*** ***redacted***\n");
});

it("a key that a local run inherits from this computer's environment is masked in its log, its error and its events", async () => {
  const place = Place.own("a saved secret masks everything");
  toClose.push(() => place.close());
  const [key, word] = [randomBytes(18).toString("hex"), `pw-${randomBytes(9).toString("hex")}`];
  const served = await place.serve({ env: { AWS_SECRET_ACCESS_KEY: key, DB_PASSWORD: word } });
  const feed = feedOf(served);
  place.file(
    "says.py",
    'import os, sys\nprint(os.environ["DB_PASSWORD"])\nsys.exit("no access with " + os.environ["AWS_SECRET_ACCESS_KEY"])\n',
  );
  const id = await served.submit({ entrypoint: "says.py" });
  const record = await served.ended(id);
  expect(JSON.stringify(record)).toContain("no access with ***redacted***");
  const marks = traces([key, word]);
  expect(found([["feed", Buffer.from(feed.join("\n"))], ...(await shownOf(served, place, id))], marks)).toEqual([]);
  expect(found(filesOf(place.home), marks)).toEqual([]);
});
