// Holds on a control plane, over real connections.

import { request, type IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { Holds } from "../../src/api/holds.ts";
import { until } from "../cli/serving.ts";
import { serve } from "./double.ts";
import { post } from "./wire.ts";

interface Held {
  id: string;
  answer: IncomingMessage;
  /** Its output so far. */
  said(): string;
}

async function hold(port: number): Promise<Held> {
  const answer = await new Promise<IncomingMessage>((done, fail) =>
    request({ host: "127.0.0.1", port, path: "/v1/hold" }, done).once("error", fail).end(),
  );
  let text = "";
  answer.setEncoding("utf8").on("data", (part: string) => (text += part));
  answer.on("error", () => undefined);
  await until(() => text.includes("\n"), "the hold is given, or refused");
  return { id: JSON.parse(text.split("\n")[0] ?? "").hold, answer, said: () => text };
}

test("A control plane ends with its last holder, released or cut off, and grants no hold from then on", async () => {
  let ends = 0;
  const holds = new Holds(() => (ends += 1));
  const { server } = await serve({ holds });
  const [released, cut, last] = [await hold(server.port), await hold(server.port), await hold(server.port)];
  const release = (id: string, starter: boolean) => post(server.port, `/v1/hold/${id}/release`, { starter });

  expect((await release(released.id, true)).json).toEqual({ ending: false, holders: 2 });
  expect((await release(released.id, true)).json).toEqual({ ending: false, holders: 2 });
  cut.answer.destroy();
  await until(async () => (await release("nobody", false)).json.holders === 1, "the system closed the hold");
  expect(ends).toBe(0);
  expect((await release(last.id, false)).json).toEqual({ ending: true, holders: 0 });
  expect(ends).toBe(1);

  const late = await post(server.port, "/v1/hold/x/release", { starter: false });
  expect(late.json).toEqual({ ending: true, holders: 0 });
  await expect(fetch(`${server.url}/v1/hold`).then((r) => r.status)).resolves.toBe(503);
  holds.farewell({ unfinished: ["job1"], kept: [] });
  await until(() => last.said().split("\n").length === 3, "a holder that released it receives how it ended");
  expect(JSON.parse(last.said().split("\n")[1] ?? "")).toEqual({ unfinished: ["job1"], kept: [] });
  expect(ends).toBe(1);
});

test("A control plane runs as long as its starter, and one that its owner started outlives every hold", async () => {
  let ends = 0;
  const mine = new Holds(() => (ends += 1));
  const { server } = await serve({ holds: mine });
  (await hold(server.port)).answer.destroy();
  expect((await post(server.port, "/v1/hold/x/release", { starter: false })).json.ending).toBe(false);
  expect(ends).toBe(0);
  mine.starterGone();
  await until(() => ends === 1, "no holder is left");

  const served = await serve();
  const held = await hold(served.server.port);
  expect(JSON.parse(held.said()).ends_with_holders).toBe(false);
  expect((await post(served.server.port, `/v1/hold/${held.id}/release`, { starter: true })).json).toEqual({
    ending: false,
    holders: 0,
  });
});
