// A script prints a secret: as a whole, in parts and encoded. Afterwards it is nowhere: not in the log, the store, an
// answer of the API, a process list, nor in any file of the home.

import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { Place, until } from "./harness.ts";

const place = Place.own("it is killed");
afterAll(() => place.close());

it("svc masks a secret in all its forms, and leaves no copy behind", async () => {
  const secret = `s3-${randomBytes(18).toString("base64")}`;
  const literal = `key-${randomBytes(12).toString("hex")}`;
  place.file(
    "tell.py",
    `import base64, json, os, sys, time, urllib.parse
import svc
token, key = os.environ["TOKEN"], os.environ["API_KEY"]
def put(text):
    os.write(1, text.encode())
put("whole " + token + "\\n")
for c in token:
    put(c); time.sleep(0.01)
put("\\nhalves " + token[:9])
time.sleep(0.3)
svc.log({"loss": 1.0}, step=0)
put(token[9:] + "\\nbase64 " + base64.b64encode(token.encode()).decode() + "\\n")
put("quoted " + urllib.parse.quote(token, safe="") + "\\n")
put("key " + key + " json " + json.dumps({"token": token}) + "\\n")
svc.log({"loss/" + token: 2.0}, step=1)
sys.stderr.write("stderr " + token + "\\n"); sys.stderr.flush()
put("end\\n")
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
`,
  );
  const go = join(place.root, "go");
  const served = await place.serve({ env: { MY_SECRET: secret } });
  const feed: string[] = [];
  const socket = new WebSocket(`${served.url.replace("http", "ws")}/v1/events?since=0`);
  socket.addEventListener("message", (e) => feed.push(String(e.data)));
  const id = await served.submit({
    entrypoint: "tell.py",
    args: [go],
    env: { TOKEN: "env://MY_SECRET", API_KEY: literal, PLAIN: "seen" },
  });
  await until(async () => (await served.text(`/jobs/${id}/logs`)).includes("end\n"), "all is printed");

  // While it runs: no process shows the secret in its arguments, and the file that passed it to the runner is gone.
  for (const pid of readdirSync("/proc").filter((name) => /^[0-9]+$/.test(name))) {
    let line = "";
    try {
      line = readFileSync(`/proc/${pid}/cmdline`, "latin1");
    } catch {
      continue;
    }
    expect(line.includes(secret), `pid ${pid}`).toBe(false);
    expect(line.includes(literal), `pid ${pid}`).toBe(false);
  }
  const runDir = join(place.home, "runs", id, "node0");
  expect(existsSync(join(runDir, "env.json"))).toBe(false);
  expect(readFileSync(join(runDir, "spec.json"), "utf8")).not.toContain(secret);
  expect(readFileSync(join(runDir, "spec.json"), "utf8")).not.toContain(literal);

  place.file("../go", "");
  const job = await served.ended(id);
  expect(job.status).toBe("succeeded");
  expect(job.spec["env"]).toEqual({ TOKEN: "env://MY_SECRET", API_KEY: "***", PLAIN: "seen" });

  const log = place.log(id).toString();
  expect(log).toContain("whole ***redacted***\n***redacted***\nhalves ***redacted***\nbase64 ***redacted***\n");
  expect(log).toContain("key ***redacted*** json ");
  expect(log).toContain("stderr ***redacted***\n");
  const forms = [secret, Buffer.from(secret).toString("base64"), encodeURIComponent(secret), literal];
  for (const form of [...forms, secret.slice(0, 12)]) expect(log.includes(form)).toBe(false);

  const answers: string[] = [feed.join("\n")];
  for (const path of [
    "/jobs",
    `/jobs/${id}`,
    `/jobs/${id}/logs`,
    `/jobs/${id}/metrics`,
    `/jobs/${id}/timeline`,
    `/jobs/${id}/code`,
    "/v1/machines",
    "/v1/providers",
  ]) {
    answers.push(await served.text(path));
  }
  expect(feed.length).toBeGreaterThan(3);
  for (const answer of answers)
    for (const form of forms) expect(answer.includes(form), answer.slice(0, 80)).toBe(false);
  expect(served.out + served.err).not.toContain(secret);
  socket.close();
  served.signal("SIGTERM");
  await served.exited;

  // No file of the home contains either of them, including the store and its journal.
  for (const entry of readdirSync(place.home, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const bytes = readFileSync(path);
    for (const form of forms) expect(bytes.includes(form), path).toBe(false);
  }
  expect(readdirSync(join(place.home, "runs"))).toEqual([]);
});

it.each([
  ["is gone", {}],
  ["is another one", { MY_SECRET: "a-new-one-that-was-rotated" }],
])("a secret that %s after a restart: the run ends as it should and shows neither", async (_, env) => {
  const secret = `tok_${randomBytes(16).toString("hex")}`;
  place.file(
    "slow.py",
    'import os, time\nfor i in range(60):\n    print(i, os.environ["TOKEN"], flush=True)\n    time.sleep(0.05)\n',
  );
  const first = await place.serve({ env: { MY_SECRET: secret } });
  const id = await first.submit({ entrypoint: "slow.py", env: { TOKEN: "env://MY_SECRET" } });
  await until(() => place.log(id).length > 30, "some log is home");
  await first.kill();
  const sealed = readFileSync(join(place.home, "runs", id, "secrets.sealed"));
  expect(sealed.includes(secret)).toBe(false);
  const second = await place.serve({ env });
  expect((await second.ended(id)).status).toBe("succeeded");
  expect(place.log(id).toString()).toBe(Array.from({ length: 60 }, (_v, i) => `${i} ***redacted***\n`).join(""));
  expect(readdirSync(join(place.home, "runs"))).toEqual([]);
  await second.kill();
});
