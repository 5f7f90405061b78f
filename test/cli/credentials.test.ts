// `svc credentials` as a process, with and without a control plane.

import { spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { CLI, Workplace } from "./serving.ts";
import { onTerminal } from "./terminal.ts";

let at: Workplace;
beforeEach(() => void (at = new Workplace()));
afterEach(() => at.close());

const svc = (input: string, ...args: string[]) => {
  const r = spawnSync(CLI, ["credentials", ...args], {
    env: at.env,
    cwd: at.project,
    input,
    encoding: "utf8",
    timeout: DEADLINE_MS,
  });
  return { code: r.status, out: r.stdout, err: r.stderr };
};
const stored = (): unknown => JSON.parse(readFileSync(join(at.home, "credentials.json"), "utf8"));
const SECRET = "hf_0123456789abcdef";

test.each([
  ["with a control plane", true],
  ["without one", false],
])("Credentials are set from standard input, listed masked and removed, %s", async (_, running) => {
  if (running) await at.serve();
  expect(svc(`${SECRET}\n`, "set", "hub", "token", "cache_dir=/models")).toEqual({
    code: 0,
    out: "",
    err: "Saved for hub.\n",
  });
  expect(stored()).toEqual({ hub: { token: SECRET, cache_dir: "/models" } });
  expect(svc("", "ls").out).toBe("hub.token\t…cdef\tstore\nhub.cache_dir\t/models\tstore\n");
  expect(JSON.parse(svc("", "--json").out)).toMatchObject({ hub: { token: { value: "…cdef" } } });
  expect(svc("", "set", "hub", "cache_dir=").code).toBe(0);
  expect(stored()).toEqual({ hub: { token: SECRET } });
  expect(svc("two words", "set", "market")).toMatchObject({
    code: 2,
    err: expect.stringContaining("api_key") as string,
  });
  expect(svc("", "check", "market")).toMatchObject({ code: 4, out: "" });
  expect(svc("", "rm", "hub").code).toBe(0);
  expect(stored()).toEqual({});
});

test.each([
  ["runpod", "podhost"],
  ["Vast.ai", "market"],
  ["gce", "cloudvm"],
])("The name of the service %s leads to svc's name for it", (word, name) => {
  const r = svc("", "set", word);
  expect([r.code, r.err]).toEqual([2, expect.stringContaining(`Write ${name} instead.`) as string]);
  const plan = at.svc("plan", "train.py", "--provider", word);
  expect([plan.code, plan.err]).toEqual([2, expect.stringContaining(`Did you mean ${name}?`) as string]);
});

test("a secret on the command line is refused and not repeated", () => {
  // A secret access key may begin as a path does.
  for (const [name, field, secret] of [
    ["hub", "token", SECRET],
    ["objstore_a", "secret_access_key", `/${SECRET}`],
  ] as const) {
    const r = svc("", "set", name, `${field}=${secret}`);
    expect([r.code, r.out]).toEqual([2, ""]);
    expect(r.err).toContain(`svc credentials set ${name} ${field}`);
    expect(r.err).not.toContain(SECRET);
  }
  for (const word of [SECRET, `${SECRET}==`]) {
    const r = svc("", "set", "hub", word);
    expect([r.code, r.out]).toEqual([2, ""]);
    expect(r.err).toContain("token, cache_dir, url");
    expect(r.err).not.toContain(SECRET);
  }
  for (const words of [
    ["set", "moon"],
    ["set"],
    ["rm", "hub", "token"],
    ["spell", "hub"],
    ["set", "hub", "token", "url"],
  ])
    expect(svc("", ...words).code, words.join(" ")).toBe(2);
});

/**
 * A shell on a terminal: it runs `svc`, which asks for a secret; the input is pasted, and the next program receives the
 * rest of it.
 */
const SHELL = '"$0" credentials set "$1"; code=$?; timeout 1 cat; exit $code';
const paste = (name: string, text: string) =>
  onTerminal(["/bin/sh", "-c", SHELL, CLI, name], { until: ": ", type: `${text}\r`, env: at.env, cwd: at.project });

test("on a terminal typed text is not shown", () => {
  const r = paste("hub", SECRET);
  expect([r.status, r.stderr]).toEqual([0, ""]);
  expect(r.stdout).toContain("Saved for hub.");
  expect(r.stdout).not.toContain(SECRET);
  expect(stored()).toEqual({ hub: { token: SECRET } });
});

test("on a terminal a key file can be pasted, and pasted text stays hidden", () => {
  const private_key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({
    type: "pkcs8",
    format: "pem",
  });
  const key = { type: "service_account", client_email: "me@p.example", private_key, token_uri: "https://t.example" };
  const saved = paste("cloudvm", JSON.stringify(key, null, 2).replaceAll("\n", "\r"));
  expect(saved.stdout).toContain("Saved for cloudvm.");
  const { providers } = stored() as { providers: { cloudvm: { service_account_json: string } } };
  expect(JSON.parse(providers.cloudvm.service_account_json)).toEqual(key);

  const other = paste("hub", `${SECRET}\r${String(private_key).replaceAll("\n", "\r")}`);
  expect(other.stdout).toContain("Saved for hub.");
  for (const { stdout } of [saved, other]) expect(stdout).not.toMatch(/PRIVATE KEY|[A-Za-z0-9+/]{20}/);
});

test("on a terminal Ctrl-C sets nothing", () => {
  expect(paste("hub", "hf_01\u0003").status).toBe(130);
  expect(stored).toThrow(/ENOENT/);
});
