// podhost: how a pod ends itself with its own key.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { guardScript } from "../../src/providers/guard.ts";
import { selfEndScript } from "../../src/providers/podhost/start-command.ts";
import { data, errors, podhostStub } from "./podhost-stub.ts";

const run = promisify(execFile);

describe("ending itself", () => {
  /** The functions of the guard, and one turn of its ending. */
  const turn = async (base: string, restOnly = false, env: Record<string, string> = {}) => {
    const guard = guardScript({ name: "m", graceSeconds: 60, stopSeconds: 10, selfEnd: selfEndScript(base, restOnly) });
    const functions = /^uptime_s\(\)[\s\S]*?(?=^# Its log)/m.exec(guard)?.[0] ?? "";
    return run("sh", ["-c", `${functions.replaceAll("sleep 1", "sleep 0.05")}\n(end_machine)`], {
      env: { PATH: process.env["PATH"], RUNPOD_API_KEY: "machine-key", RUNPOD_POD_ID: "pod7", ...env },
    }).then(
      () => true,
      () => false,
    );
  };

  test("terminates by its own key, and by nothing else once that was accepted", async () => {
    const stub = await podhostStub(() => data({ podTerminate: null }));
    expect(await turn(stub.url)).toBe(true);
    expect(stub.asked.map(({ key, root, body }) => [key, root, body.variables])).toEqual([
      ["Bearer machine-key", "podTerminate", { input: { podId: "pod7" } }],
    ]);
  });

  test("tries every way when the pod still runs after several accepted ones", async () => {
    const stub = await podhostStub(({ root }) => (root === "" ? { status: 204 } : data({ podTerminate: null })));
    await turn(stub.url, false, { tries: "4" });
    expect(stub.names()).toEqual(["podTerminate"]);
    await turn(stub.url, false, { tries: "5" });
    expect(stub.names().slice(1)).toEqual([
      "podTerminate",
      "DELETE /v2/pods/pod7",
      "podStop",
      "POST /v2/pods/pod7/action",
    ]);
  });

  test("tries the other API if the termination is refused, and then tries to stop the pod", async () => {
    const stub = await podhostStub(({ root, path }) =>
      root === "podTerminate" ? errors("no") : path.endsWith("/action") ? { json: {} } : { status: 403 },
    );
    expect(await turn(stub.url)).toBe(true);
    expect(stub.names()).toEqual(["podTerminate", "DELETE /v2/pods/pod7", "podStop", "POST /v2/pods/pod7/action"]);
  });

  test("uses only REST, and requests nothing without an id or a key", async () => {
    const stub = await podhostStub(() => ({ status: 204 }));
    expect(await turn(stub.url, true)).toBe(true);
    expect(stub.names()).toEqual(["DELETE /v2/pods/pod7"]);
    expect(await turn(stub.url, true, { RUNPOD_POD_ID: "../x" })).toBe(false);
    expect(await turn(stub.url, true, { RUNPOD_API_KEY: "" })).toBe(false);
    expect(stub.asked).toHaveLength(1);
  });
});
