// `svc offers`, `svc gpus` and `svc open` as processes, against simulated providers.
// @module-tag needs/sshd

import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until, Workplace } from "./serving.ts";

let at: Workplace;
let sim: ReturnType<Workplace["start"]>;

beforeAll(async () => {
  at = new Workplace();
  sim = at.start("sim", "podhost", "market", "--json");
  await until(() => sim.out().includes("\n"), "the simulated providers are ready");
  const { env } = JSON.parse(sim.out().split("\n")[0] ?? "") as { env: Record<string, string> };
  Object.assign(at.env, env, { SVC_HOME: at.home });
});
afterAll(async () => {
  sim.child.kill("SIGTERM");
  await sim.exited;
  await at.close();
});

const rows = (out: string): string[][] =>
  out
    .trimEnd()
    .split("\n")
    .map((row) => row.split("\t"));

describe.each(["without a control plane", "with one"])("%s", (how) => {
  let url = "";
  beforeAll(async () => {
    if (how === "with one") ({ url } = await at.serve());
  });

  test("every offer of a model is listed, the cheapest first", () => {
    const r = at.svc("offers", "RTX4090", "A40");
    expect(r.code, r.err).toBe(0);
    const prices = rows(r.out).map((row) => Number(row[2]));
    expect(prices.length).toBeGreaterThan(1);
    expect(prices).toEqual(prices.toSorted((a, b) => a - b));
    expect(new Set(rows(r.out).map((row) => row[1]))).toEqual(new Set(["podhost", "market"]));
  });

  test("a cap leaves out more expensive offers and says how many", () => {
    const all = rows(at.svc("offers", "RTX4090", "A40").out).map((row) => Number(row[2]));
    const cheapest = Math.min(...all);
    const r = at.svc("offers", "RTX4090", "A40", "--price-cap", String(cheapest));
    expect(rows(r.out).every((row) => Number(row[2]) <= cheapest)).toBe(true);
    expect(r.err).toContain("above $");
    expect(at.svc("offers", "RTX4090", "--price-cap", "0.001").code).toBe(1);
  });

  test("without a model, one row for each provider and GPU; with --group gpu one for each GPU", async () => {
    // The market may be searched ten times a minute, so each command waits as long as svc waits for an answer. Without a
    // control plane each holds the lock of its home.
    const other = how === "with one" ? at.home : join(at.root, "other");
    const asked = [at.start("offers"), at.startIn(other, "offers", "--group", "gpu")];
    for (const { exited, err } of asked) expect(await exited, err()).toBe(0);
    const [providers, models] = asked.map(({ out }) => rows(out())) as [string[][], string[][]];
    const byProvider = providers.map(([gpus, provider]) => `${provider} ${gpus}`);
    expect(new Set(byProvider).size).toBe(byProvider.length);
    const byGpu = models.map(([gpus]) => gpus);
    expect(new Set(byGpu).size).toBe(byGpu.length);
    expect(byGpu.length).toBeLessThanOrEqual(byProvider.length);
  });

  test("--json has all, --json FIELDS the named ones", () => {
    const whole = JSON.parse(at.svc("offers", "A40", "--json").out);
    expect(whole.offers[0]).toMatchObject({ gpus: "A40", within_cap: true });
    expect(whole.asked).toEqual(
      expect.arrayContaining([expect.objectContaining({ provider: "podhost", gpus: "A40", error: null })]),
    );
    const [first] = JSON.parse(at.svc("offers", "A40", "--json", "provider,price_per_hour_usd").out);
    expect(Object.keys(first)).toEqual(["provider", "price_per_hour_usd"]);
  });

  test("`svc gpus` shows the cheapest price of each model while a control plane runs", () => {
    const r = at.svc("gpus", "--json", "model,cheapest");
    const a40 = JSON.parse(r.out).find(({ model }: { model: string }) => model === "A40");
    // The tests before have asked for it, so its price is known at once.
    if (how === "with one") expect(a40.cheapest.price_per_hour_usd).toBeGreaterThan(0);
    else expect(a40.cheapest).toBeNull();
  });

  test("`svc open` opens a page in the browser, or prints its address without one", async () => {
    const folder = join(at.root, "browser");
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "xdg-open"), `#!/bin/sh\necho "$1" >'${folder}/opened'\n`);
    chmodSync(join(folder, "xdg-open"), 0o755);
    if (how !== "with one") {
      const r = at.svc("open");
      expect([r.code, r.err]).toEqual([5, expect.stringContaining(`No control plane is running for ${at.home}.\n`)]);
      return;
    }
    for (const name of ["DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY"]) delete at.env[name];
    expect(at.svc("open")).toEqual({ code: 0, out: `${url}/\n`, err: "" });
    expect(at.svc("open", "machines").out).toBe(`${url}/machines\n`);
    expect(at.svc("open", "machine")).toMatchObject({ code: 2, err: expect.stringContaining("svc open machines") });
    expect(at.svc("open", "zzzz").code).toBe(3);
    Object.assign(at.env, { DISPLAY: ":0", PATH: `${folder}:${at.env["PATH"]}` });
    expect(JSON.parse(at.svc("open", "gpus", "--json").out)).toEqual({ url: `${url}/gpus`, opened: true });
    await until(() => read(join(folder, "opened")) === `${url}/gpus\n`, "the browser got the address");
  });
});

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

test("Without a connected provider it ends with exit code 4 and says how to connect one", () => {
  const bare = new Workplace();
  const r = bare.svc("offers", "A40");
  expect([r.code, r.out]).toEqual([4, ""]);
  expect(r.err).toContain("svc credentials set");
  return bare.close();
});
