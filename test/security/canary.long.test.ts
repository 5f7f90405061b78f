// A canary of every kind passes through a whole run, on this computer and on a rented machine, with a control plane
// that is killed and restarted in the middle; the script prints each of them in every way, and fails with one in its
// last output. None of them appears in the home, the store, an answer, the live feed, an output of the CLI, a command
// line, or a request to the provider.

import { existsSync, mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { loadSshKey } from "../../src/ssh/keys.ts";
import { Place, until, type Served } from "../process/harness.ts";
import { makeFleet } from "../sim/machines/fleet.ts";
import { scaledClock } from "../sim/providers/clock.ts";
import { makeFaults } from "../sim/providers/faults.ts";
import { makeLedger } from "../sim/providers/ledger.ts";
import { startSim } from "../sim/providers/start.ts";
import { canaries, CommandLines, filesOf, found, recorder, traces, type Canaries } from "./canary.ts";

const SCRIPT = `import base64, json, os, sys, time, urllib.parse
import svc
NAMES = ["API_KEY", "PEM", "STORED", "DATABASE_URL", "HUB_TOKEN", "HUB_ACCESS_TOKEN", "HF_TOKEN", "TRACKER_API_KEY", "WANDB_API_KEY"]
values = [os.environ[name] for name in NAMES]
def put(text):
    os.write(1, text.encode())
def tell():
    for value in values:
        raw = value.encode()
        put("raw %s\\njson %s\\n" % (value, json.dumps(value)))
        put("b64 %s\\nb64u %s\\nhex %s\\n" % (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode(), raw.hex()))
        put("url %s\\nrepr %r %r\\n" % (urllib.parse.quote(value, safe=""), value, raw))
        svc.log({"loss/" + value.replace("\\n", " "): 1.0}, step=0)
    sys.stderr.write("stderr " + values[0] + "\\n"); sys.stderr.flush()
# Before anything is logged: then other processes of the run have words of their own, which may come between two halves.
for value in values:
    put("halves " + value[:11])
    time.sleep(0.05)
    put(value[11:] + "\\n")
tell()
loose = []
for top in sys.argv[2:]:
    for folder, _, names in os.walk(os.path.expanduser(top)):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.getsize(path) < 1_000_000 and os.stat(path).st_mode & 0o077:
                    with open(path, "rb") as file:
                        held = file.read()
                    if any(value.encode() in held for value in values):
                        loose.append(path)
            except OSError:
                pass
print("loose files:", len(loose), flush=True)
with open(os.path.join(os.environ["SVC_CHECKPOINT_DIR"], "x-" + os.environ["HUB_TOKEN"]), "w") as file:
    file.write("weights")
print("at work", flush=True)
while not os.path.exists("go.txt") and time.time() < float(sys.argv[1]):
    time.sleep(0.05)
tell()
raise RuntimeError("it failed with " + os.environ["STORED"])
`;

const GETS = ["", "/logs", "/metrics", "/timeline", "/checkpoints", "/code"];
const ASIDE = ["/jobs", "/v1/machines", "/v1/providers", "/v1/credentials", "/v1/health"];

const toClose: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of toClose.splice(0).reverse()) await close();
});

async function put(served: Served, path: string, body: unknown): Promise<string> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${served.url}${path}`, { method: "PUT", headers, body: JSON.stringify(body) });
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  return text;
}

function feedOf(served: Served, into: string[]): void {
  const socket = new WebSocket(`${served.url.replace("http", "ws")}/v1/events?since=0`);
  socket.addEventListener("message", (e) => into.push(String(e.data)));
  toClose.push(() => socket.close());
}

async function rented(place: Place, apiKey: string) {
  mkdirSync(place.home, { mode: 0o700 });
  const dir = join(place.root, "fleet");
  mkdirSync(dir);
  const fleet = await makeFleet({ dir });
  toClose.push(() => fleet.close());
  const { publicKeyLine } = await loadSshKey({ path: null, home: place.home });
  const clock = scaledClock(10, Date.now());
  const parts = { fleet, ledger: makeLedger(() => undefined), faults: makeFaults(), clock, apiKey };
  const sim = await startSim("podhost", { ...parts, authorizedKeys: [publicKeyLine] });
  toClose.push(() => sim.close());
  const recorded = await recorder(sim.url);
  toClose.push(recorded.close);
  return { heard: recorded.heard, env: { SVC_PODHOST_URL: recorded.url } };
}

async function run(provider: "local" | "podhost", secrets: Canaries): Promise<void> {
  const place = Place.own("it is started again with another secret");
  toClose.push(() => place.close());
  place.file("tell.py", SCRIPT);
  const machine = provider === "local" ? null : await rented(place, secrets.providerKey);
  const env = { ...machine?.env, MY_PEM: secrets.environmentRef, MARKET_API_KEY: secrets.otherProviderKey };
  const lines = new CommandLines();
  const feed: string[] = [];
  const answers: string[] = [];

  const first = await place.serve({ env });
  feedOf(first, feed);
  answers.push(await put(first, "/v1/credentials/podhost", { api_key: secrets.providerKey }));
  answers.push(await put(first, "/v1/credentials/hub", { token: secrets.hubToken }));
  const keys = { access_key_id: "AKID", secret_access_key: secrets.storeSecret };
  answers.push(await put(first, "/v1/credentials/objstore_a", keys));
  answers.push(await put(first, "/v1/credentials/market", { region: "eu" }));
  const tracking = { tracker: { secret_ref: "env://MINE", project: "p" } };
  const values = { "tracking.tracker": secrets.trackerKey };
  answers.push(await put(first, "/v1/registry", { registry: { tracking }, use: [], values }));
  const file = join(place.home, "credentials.json");
  const id = await first.submit({
    entrypoint: "tell.py",
    args: [String(Date.now() / 1000 + (machine ? 30 : 120)), ...(machine ? ["~", "/dev/shm", "/var/lib/svc"] : ["."])],
    install: "none",
    env: {
      API_KEY: secrets.literalKey,
      PEM: "env://MY_PEM",
      STORED: "store://objstore_a/secret_access_key",
      // Their names do not suggest a secret.
      NOTE: `see ${secrets.hubToken} and ${secrets.trackerKey}`,
      DATABASE_URL: `postgres://me:${secrets.urlPassword}@db.example/x`,
    },
    ...(machine ? { provider, gpus: "RTX4090", price_cap: 2 } : {}),
  });
  await until(
    () => existsSync(join(place.home, "logs", `${id}.log`)) && place.log(id).includes("at work\n"),
    () => `it works: ${place.lastWords()}`,
    120_000,
  );
  await first.kill();
  // Another environment: the run's secrets must still be known.
  const second = await place.serve({ env: { ...env, MY_PEM: "rotated-meanwhile-0123456789" } });
  feedOf(second, feed);
  if (!machine) place.file("go.txt", "");
  const record = await second.ended(id, 180_000);
  expect(record).toMatchObject({ status: "failed", exit_code: 1 });
  expect(place.log(id).toString()).toContain("loose files: 0\n");
  expect(JSON.stringify(record)).toContain("***redacted***");

  for (const path of GETS) answers.push(await second.text(`/jobs/${id}${path}`));
  for (const path of ASIDE) answers.push(await second.text(path));
  const commands = [
    ["jobs", "--json"],
    ["jobs"],
    ["logs", id],
    ["timeline", id],
    ["timeline", id, "--json"],
    ["doctor"],
  ];
  const told = commands.map((argv) => place.svc(...argv)).map(({ out, err }) => out + err);
  second.signal("SIGTERM");
  await second.exited;
  const commandLines = lines.stop();
  expect(lines.looks).toBeGreaterThan(50);
  expect(commandLines.some((line) => line.includes("tell.py"))).toBe(true);
  expect(feed.length).toBeGreaterThan(10);
  expect(statSync(file).mode & 0o777).toBe(0o600);

  const marks = traces(Object.values(secrets));
  const named = (name: string, texts: readonly string[]) =>
    texts.map((text, i) => [`${name} ${i}`, Buffer.from(text)] as const);
  expect(found([["control", Buffer.from(secrets.hubToken)]], marks)).not.toEqual([]);
  expect(
    found(
      [...filesOf(place.home)].filter(([path]) => path !== file),
      marks,
    ),
  ).toEqual([]);
  expect(found(named("answer", answers), marks)).toEqual([]);
  expect(found(named("feed", feed), marks)).toEqual([]);
  expect(found(named("cli", told), marks)).toEqual([]);
  expect(found(named("serve", [first.out, first.err, second.out, second.err]), marks)).toEqual([]);
  expect(found(named("command line", commandLines), marks)).toEqual([]);
  if (machine) {
    expect(machine.heard.length).toBeGreaterThan(5);
    expect(found(named("provider", machine.heard), marks)).toEqual([]);
  }
}

it("on this computer no canary leaks", () => run("local", canaries()));
it("on a rented machine no canary leaks", () => run("podhost", canaries()));
