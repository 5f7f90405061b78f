// `svc sim` as a process, with the troubles that a run may have to survive.

import { existsSync, readdirSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { HomeLock } from "../../src/store/home-lock.ts";
import { until, Workplace } from "./serving.ts";

let at: Workplace;
beforeEach(() => void (at = new Workplace()));
afterEach(() => at.close());

test(
  "`svc sim --scarce --price-moves` offers nothing for a while, and asks for more than it offered",
  { tags: "needs/sshd" },
  async () => {
    const sim = at.start("sim", "market", "--scarce", "2", "--price-moves", "200", "--json");
    onTestFinished(async () => {
      sim.child.kill("SIGINT");
      await sim.exited;
    });
    await until(() => sim.out().includes("\n"), "the simulator to serve");
    const { env, urls } = JSON.parse(sim.out()) as { env: Record<string, string>; urls: Record<string, string> };
    const call = async (method: string, path: string, body: object): Promise<Record<string, unknown>> => {
      const headers = { authorization: `Bearer ${env["MARKET_API_KEY"]}`, "content-type": "application/json" };
      const answer = await fetch(`${urls["market"]}${path}`, { method, headers, body: JSON.stringify(body) });
      return (await answer.json()) as Record<string, unknown>;
    };
    const search = async () =>
      (await call("POST", "/api/v0/bundles/", { gpu_name: { eq: "RTX 4090" }, rentable: { eq: true } }))["offers"] as {
        id: number;
        min_bid: number;
      }[];
    expect(await search()).toEqual([]);
    await until(async () => (await search()).length > 0, "stock to come back");
    const [offer] = await search();
    const order = { client_id: "me", image: "x", label: "svc-t", disk: 10, cancel_unavail: true };
    const bid = await call("PUT", `/api/v0/asks/${offer?.id}/`, { ...order, price: (offer?.min_bid ?? 0) * 1.1 });
    expect(bid).toMatchObject({ success: false });
    expect(bid).not.toHaveProperty("new_contract");
  },
);

test.each([
  ["--scarce", "soon"],
  ["--bad-hosts", "0"],
  ["--preempt-after", "1000000000"],
  ["--seed", "-1"],
])("`svc sim %s %s` is wrong usage", (flag, value) => {
  const r = at.svc("sim", "market", `${flag}=${value}`);
  expect([r.code, r.out]).toEqual([2, ""]);
  expect(r.err).toContain(`${flag} must be a whole number`);
});

// Under `npm run test:whole` this is the built program, in which Google's library is a chunk of its own.
test("`svc credentials check cloudvm` gets a token and is accepted", { tags: "needs/sshd" }, async () => {
  const sim = at.start("sim", "cloudvm", "--json");
  onTestFinished(async () => {
    sim.child.kill("SIGINT");
    await sim.exited;
  });
  await until(() => sim.out().includes("\n"), "the simulator to serve");
  const { env } = JSON.parse(sim.out()) as { env: Record<string, string> };
  Object.assign(at.env, env);
  // The simulator answers in its own process; the home is the one that it made, with its key file.
  const checked = at.svcIn(env["SVC_HOME"] ?? "", "credentials", "check", "cloudvm");
  expect([checked.code, checked.err]).toEqual([0, ""]);
});

test(
  "`svc sim` keeps its home while a control plane uses it, and says what ends it",
  { tags: "needs/sshd" },
  async () => {
    const sim = at.start("sim", "market", "--json");
    onTestFinished(async () => {
      sim.child.kill("SIGKILL");
      await sim.exited;
    });
    await until(() => sim.out().includes("\n"), "the simulator to serve");
    await until(() => sim.err().includes("The folder SVC_HOME is deleted at the end."), "the words about the home");
    const { env } = JSON.parse(sim.out()) as { env: Record<string, string> };
    const home = env["SVC_HOME"] ?? "";
    onTestFinished(() => rmSync(dirname(home), { recursive: true, force: true }));
    Object.assign(at.env, env);
    const served = at.startIn(home, "serve", "--port", "0", "--json");
    onTestFinished(async () => {
      served.child.kill("SIGTERM");
      await served.exited;
    });
    await until(() => served.out().includes("\n"), "the control plane to serve");
    sim.child.kill("SIGINT");
    expect(await sim.exited).toBe(130);
    const { pid } = JSON.parse(served.out()) as { pid: number };
    expect(sim.err()).toContain(`end process ${pid} (Ctrl-C or \`kill ${pid}\`), then delete ${dirname(home)}.`);
    expect(readdirSync(dirname(home))).toEqual(["home"]);
    expect(at.svcIn(home, "jobs").code).toBe(0);
  },
);

test(
  "`svc sim --json` says that it deletes its home, keeps it from a control plane that has not said its address yet, and deletes it else",
  { tags: "needs/sshd" },
  async () => {
    const begin = async () => {
      const sim = at.start("sim", "market", "--json");
      onTestFinished(async () => {
        sim.child.kill("SIGKILL");
        await sim.exited;
      });
      await until(() => sim.out().includes("\n"), "the simulator to serve");
      const said = JSON.parse(sim.out()) as { env: Record<string, string>; home_deleted_at_end: boolean };
      expect(said.home_deleted_at_end).toBe(true);
      const folder = dirname(said.env["SVC_HOME"] ?? "");
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      return { sim, folder, home: said.env["SVC_HOME"] ?? "" };
    };
    const free = await begin();
    free.sim.child.kill("SIGINT");
    expect(await free.sim.exited).toBe(130);
    expect(existsSync(free.folder)).toBe(false);

    const held = await begin();
    const lock = HomeLock.take(held.home);
    onTestFinished(() => lock.release());
    lock.announce({ pid: process.pid, command: "svc serve", started_at: new Date().toISOString(), url: null });
    held.sim.child.kill("SIGINT");
    expect(await held.sim.exited).toBe(130);
    expect(held.sim.err()).toContain(`process ${process.pid} (svc serve)`);
    expect(held.sim.err()).toContain(`then delete ${held.folder}.`);
    expect(existsSync(held.home)).toBe(true);
  },
);
