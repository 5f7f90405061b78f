// The routes of limits, over real connections.

import { expect, test } from "vitest";
import { serve } from "./double.ts";

const put = (url: string, body: string, type = "application/json") =>
  fetch(`${url}/v1/limits`, { method: "PUT", headers: { "content-type": type }, body });

test("limits are set, kept and removed, and the answer has what is used, reserved and left", async () => {
  const { server } = await serve();
  const set = await put(server.url, JSON.stringify({ usd_per_day: 20.5, max_gpus: 8 }));
  expect(set.status).toBe(200);
  expect(await set.json()).toMatchObject({
    usd_per_day: { limit: 20.5, used: 0, reserved: 0, left: 20.5 },
    max_gpus: { limit: 8 },
    max_machines: { limit: null, left: null },
    waiting: [],
  });
  await put(server.url, JSON.stringify({ usd_per_day: null }));
  const now = await (await fetch(`${server.url}/v1/limits`)).json();
  expect(now).toMatchObject({ usd_per_day: { limit: null }, max_gpus: { limit: 8 } });
});

test.each([
  ['{"usd_per_day":-1}', "usd_per_day"],
  ['{"usd_per_day":"NaN"}', "usd_per_day"],
  ['{"usd_per_hour":1e400}', "usd_per_hour"],
  ['{"usd_per_month":1000001}', "usd_per_month"],
  ['{"max_machines":1.5}', "max_machines"],
  ['{"max_gpus":-1}', "max_gpus"],
  ['{"usd_per_week":1}', "usd_per_week"],
])("%s is refused with its field, and changes nothing", async (body, field) => {
  const { server, plane } = await serve();
  const before = plane.limits;
  const answer = await put(server.url, body);
  expect(answer.status).toBe(400);
  expect(await answer.text()).toContain(field);
  expect(plane.limits).toBe(before);
});

test("NaN is not JSON, and another content type is refused", async () => {
  const { server } = await serve();
  expect((await put(server.url, '{"usd_per_day":NaN}')).status).toBe(400);
  expect((await put(server.url, "{}", "text/plain")).status).toBe(415);
});
