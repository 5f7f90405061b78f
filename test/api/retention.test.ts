// The routes of the retention rule and of archived runs, over real connections.

import { expect, test } from "vitest";
import { serve } from "./double.ts";

const put = (url: string, body: string, type = "application/json") =>
  fetch(`${url}/v1/retention`, { method: "PUT", headers: { "content-type": type }, body });

test("a rule is set and removed, and its other fields are null", async () => {
  const { server, plane } = await serve();
  const set = await put(server.url, JSON.stringify({ rule: { older_than: "30d" } }));
  expect([set.status, await set.json()]).toMatchObject([
    200,
    { rule: { older_than: "30d", keep_best: null, keep_newest: null }, due: { count: 0 } },
  ]);
  expect((await put(server.url, '{"rule":null}')).status).toBe(200);
  expect(plane.retention.rule).toBeNull();
});

test.each([
  ['{"rule":{"older_than":"soon"}}', "older_than"],
  ['{"rule":{"older_than":"0d"}}', "older_than"],
  ['{"rule":{"keep_best":"loss:3"}}', "older_than"],
  ['{"rule":{"older_than":"30d","keep_best":"loss"}}', "keep_best"],
  ['{"rule":{"older_than":"30d","keep_newest":0}}', "keep_newest"],
  ['{"rule":{"older_than":"30d","keep_newest":1.5}}', "keep_newest"],
  ['{"rule":{"older_than":"30d","keep_all":true}}', "keep_all"],
  ['{"older_than":"30d"}', "rule"],
])("%s is refused with its field, and changes nothing", async (body, field) => {
  const { server, plane } = await serve();
  const answer = await put(server.url, body);
  expect(answer.status).toBe(400);
  expect(await answer.text()).toContain(field);
  expect(plane.retention.rule).toBeNull();
});

test("a run is archived once it has ended, and a list takes only known choices", async () => {
  const { server, plane } = await serve();
  const { id } = plane.addJob({ status: "running" });
  const archive = () => fetch(`${server.url}/jobs/${id}/archive`, { method: "POST" });
  const refused = await archive();
  expect([refused.status, await refused.json()]).toMatchObject([409, { code: "job_not_archivable" }]);
  plane.end(id, "succeeded");
  expect(await (await archive()).json()).toMatchObject({ id, archived_at: plane.startedAt });
  expect((await fetch(`${server.url}/jobs/none/archive`, { method: "POST" })).status).toBe(404);
  expect((await fetch(`${server.url}/jobs?archived=yes`)).status).toBe(400);
});
