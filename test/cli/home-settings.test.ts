// `settings.json` in the home: the defaults of runs.

import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { Workplace, type Served } from "./serving.ts";

const place = new Workplace();
let served: Served;
beforeAll(async () => {
  place.file("train.py", "print(1)\n");
  served = await place.serve();
});
afterAll(() => place.close());

// The file is read at each submission, so no restart is needed.
const file = join(place.home, "settings.json");
const settings = (text: string): void => writeFileSync(file, text);
afterEach(() => rmSync(file, { force: true }));

async function submit(spec: object = {}, key?: string) {
  const answer = await fetch(`${served.url}/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(key ? { "idempotency-key": key } : {}) },
    body: JSON.stringify({ spec: { entrypoint: "train.py", project_dir: place.project, ...spec } }),
  });
  const body = (await answer.json()) as { id: string; code?: string; detail?: string; spec?: Record<string, unknown> };
  return { ...body, status: answer.status, keep: body.spec?.["keep_checkpoints"] };
}

test("`keep_checkpoints` of settings.json is the default of a run", { timeout: 90_000 }, async () => {
  expect((await submit()).keep).toBeUndefined();
  settings('{"keep_checkpoints": {"last": 3}}');
  expect((await submit()).keep).toEqual({ last: 3 });
  expect((await submit({ keep_checkpoints: { best: "loss:2" } })).keep).toEqual({ best: "loss:2" });
});

test("a repeated request is the same request after settings.json has changed", { timeout: 90_000 }, async () => {
  const first = await submit({}, "key-1");
  settings('{"keep_checkpoints": {"last": 1}}');
  const again = await submit({}, "key-1");
  expect([again.status, again.id, again.keep]).toEqual([201, first.id, undefined]);
});

test.each(["{", '{"keep": 1}', '{"keep_checkpoints": {"last": "three"}}'])(
  "a settings.json that holds %s refuses runs, and the answer names the file",
  { timeout: 90_000 },
  async (text) => {
    settings(text);
    const { status, code, detail } = await submit();
    expect([status, code]).toEqual([500, "home_unusable"]);
    expect(detail).toContain("settings.json");
  },
);
