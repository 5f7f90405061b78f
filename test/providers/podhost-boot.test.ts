// Pods that cannot come up: the provider's message ends the wait, and the error quotes it.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { ProviderHttp } from "../../src/providers/http.ts";
import type { MachineStatus } from "../../src/providers/provider.ts";
import {
  data,
  HANDLE,
  listing,
  never,
  orderOf,
  pod,
  podhostStub,
  restPod,
  type Answer,
  type Stub,
} from "./podhost-stub.ts";

const LOGS = `/v2/pods/${HANDLE.id}/logs`;
const pulling = pod({ runtime: null });

/** Polls every 5 s of the provider's time, until the pod is no longer starting or so many seconds have passed. */
async function lookFor(stub: Stub, seconds: number): Promise<{ status: MachineStatus; after: number }> {
  for (let after = 0; ; after += 5) {
    const status = await stub.provider.inspect(HANDLE, never);
    if (status.phase !== "starting" || after >= seconds) return { status, after };
    stub.clock.now += 5_000;
  }
}
const withLog = (shown: unknown, log: () => Answer): Promise<Stub> =>
  podhostStub((asked) => (asked.path === LOGS ? log() : listing(shown)(asked)));

describe("A pod whose image is unavailable", () => {
  test.each<[string, Answer, RegExp, true | undefined]>([
    [
      "text",
      { raw: "pull image me/train\nError response from daemon: manifest for me/train:x not found: manifest unknown\n" },
      /manifest unknown/,
      undefined,
    ],
    ["JSON", { json: { container: ["hello"], system: ["toomanyrequests: pull rate limit"] } }, /toomanyrequests/, true],
    [
      "JSON of lines",
      { json: { logs: [{ message: "Error response from daemon: unsatisfied condition: cuda>=12.8" }] } },
      /cuda>=12\.8/,
      true,
    ],
  ])("is broken within a minute if its log says so as %s", async (_form, log, words, elsewhere) => {
    const stub = await withLog(pulling, () => log);
    const { status, after } = await lookFor(stub, 300);
    expect(status).toMatchObject({ phase: "broken", why: expect.stringMatching(words) as string });
    expect(status.phase === "broken" ? [status.elsewhere, status.image] : null).toEqual(
      elsewhere ? [true, undefined] : [undefined, true],
    );
    expect(after).toBeLessThanOrEqual(60);
  });

  test("is waited for while its log is empty, not served or an error, and the log is read seldom", async () => {
    const answers: Answer[] = [{ raw: "pulling layer 3 of 12" }, { status: 404 }, { status: 500, raw: "oops" }];
    for (const answer of answers) {
      const stub = await withLog(pulling, () => answer);
      expect((await lookFor(stub, 300)).status.phase).toBe("starting");
      expect(stub.asked.filter(({ path }) => path === LOGS).length).toBeLessThan(21);
    }
  });

  test("is not judged by the output of a running container", async () => {
    const noWay = pod({ runtime: { ports: [] } });
    const stub = await withLog(noWay, () => ({ raw: "Error response from daemon: manifest unknown" }));
    expect((await lookFor(stub, 300)).status.phase).toBe("starting");
  });
});

test("A pod whose host has no public address is replaced after a minute by one on another host", async () => {
  const port = { ip: "10.0.0.7", isIpPublic: false, privatePort: 22, publicPort: 22, type: "tcp" };
  const stub = await withLog(pod({ runtime: { ports: [port] } }), () => ({ status: 404 }));
  const { status, after } = await lookFor(stub, 300);
  expect(status).toMatchObject({ phase: "broken", elsewhere: true, why: expect.stringContaining("no public address") });
  expect(after).toBe(60);
});

test.each([
  ["me/train:cuda12.4-py311", "12.4"],
  ["me/train:cu121", "12.1"],
  ["ubuntu:24.04", undefined],
  [undefined, "12.8"],
])("An order of the image %s asks for CUDA %s or newer", async (image, floor) => {
  const stub = await podhostStub(() => data({ podFindAndDeployOnDemand: pod() }));
  const extra = { gpuTypeId: "NVIDIA H100 80GB HBM3", gpuCount: "2", cloud: "SECURE" };
  await stub.provider.create({ id: "o", priceMicro: 1, extra }, orderOf(image === undefined ? {} : { image }));
  const [asked] = stub.asked;
  expect(asked?.body.variables.input.minCudaVersion).toBe(floor);
});

test("An endless log is read as far as it arrived", async () => {
  const server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/plain" });
    response.write("manifest unknown\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const http = new ProviderHttp({ provider: "podhost", baseUrl, userAgent: "svc" });
  const answer = await http.call({ method: "GET", path: "/", timeoutMs: 500, partly: true });
  expect(answer.text).toBe("manifest unknown\n");
  await expect(http.call({ method: "GET", path: "/", timeoutMs: 500 })).rejects.toMatchObject({
    code: "provider_unreachable",
  });
});

test("REST: a pod that stopped before its container ran, without a reason, justifies another machine", async () => {
  const stub = await podhostStub(() => ({ json: { pods: [restPod({ status: "EXITED", ssh: null })] } }), {
    api: "rest",
  });
  const status = await stub.provider.inspect(HANDLE, never);
  expect(status).toMatchObject({ phase: "broken", elsewhere: true });
  expect(status).toMatchObject({ why: "the provider says EXITED, and does not say why" });
});
