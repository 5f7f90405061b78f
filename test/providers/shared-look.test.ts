import { expect, test } from "vitest";
import { SharedLook } from "../../src/providers/market/shared-look.ts";

test("A failure reaches every waiting caller, and the next caller asks again", async () => {
  const asked: PromiseWithResolvers<number>[] = [];
  const look = new SharedLook(
    () => {
      const one = Promise.withResolvers<number>();
      asked.push(one);
      return one.promise;
    },
    () => 1_000,
  );
  // Two wait for the first answer, two for the one after it.
  const first = [look.get(0), look.get(500)];
  const second = [look.get(0), look.get(0)];
  const all = Promise.allSettled([...first, ...second]);
  asked[0]?.reject(new Error("no answer"));
  await expect.poll(() => asked.length).toBe(2);
  asked[1]?.reject(new Error("no second answer"));
  expect((await all).map((one) => (one.status === "rejected" ? String(one.reason) : one.value))).toEqual([
    "Error: no answer",
    "Error: no answer",
    "Error: no second answer",
    "Error: no second answer",
  ]);
  const next = look.get(500);
  expect(asked).toHaveLength(3);
  asked[2]?.resolve(3);
  expect((await next).value).toBe(3);
});
