import { afterAll, expect, it } from "vitest";
import { Harness, removeHomes } from "../engine/harness.ts";

afterAll(removeHomes);

it("A short id that several runs share is refused with some of their ids, and says whether there are more", async () => {
  const h = await Harness.open();
  for (const id of ["abc1", "abc2", "abc3", "abc4"]) await h.create(id);
  const why = (prefix: string): string => {
    try {
      return h.reads.resolveJobId(prefix);
    } catch (e) {
      return (e as Error).message;
    }
  };
  expect(why("abc")).toBe("abc matches several runs: abc1, abc2, abc3, abc4.");
  await h.create("abc5");
  expect(why("abc")).toBe("abc matches several runs: abc1, abc2, abc3, abc4, ….");
  expect(why("abc3")).toBe("abc3");
  await h.end();
});
