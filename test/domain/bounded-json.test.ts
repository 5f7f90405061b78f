import { expect, it } from "vitest";
import { boundedJson } from "../../src/domain/bounded-json.ts";

it("A text within the bounds has the value that JSON.parse gives, and another text none", () => {
  const texts = ["0", '"a"', '{"a":[1,2,{"b":"],[{,\\""}]}', '["\\\\",[]]', "[]", " [ 1 , 2 ] "];
  for (const text of texts) expect(boundedJson(text, { values: 8, depth: 3 }), text).toEqual(JSON.parse(text));
  for (const text of ["", "[1,", '"a', '["\\"', "]]]]", "nul", '{"a":}'])
    expect(boundedJson(text, { values: 8, depth: 3 }), text).toBeUndefined();
});

it("Values and depth are bounded; what is within a text does not count", () => {
  const bounds = { values: 4, depth: 2 };
  expect(boundedJson("[0,0,0]", bounds)).toEqual([0, 0, 0]);
  expect(boundedJson("[0,0,0,0]", bounds)).toBeUndefined();
  expect(boundedJson('{"a":{"b":0}}', bounds)).toEqual({ a: { b: 0 } });
  expect(boundedJson('{"a":{"b":[]}}', bounds)).toBeUndefined();
  expect(boundedJson(`["${"[,".repeat(50)}\\"[[["]`, bounds)).toHaveLength(1);
  expect(boundedJson('["\\\\",0,0,0]', bounds)).toBeUndefined();
  expect(boundedJson("[[]", { values: 1, depth: 1 })).toBeUndefined();
});

it("Without bounds of its own a text may have the values of any real index or header, and no flood of lists", () => {
  const tensors = Array.from({ length: 20_000 }, (_, i) => [
    `layers.${i}`,
    { shape: [4096, 4096], data_offsets: [0, 1] },
  ]);
  const header = JSON.stringify(Object.fromEntries(tensors));
  expect(boundedJson(header)).toEqual(JSON.parse(header));
  expect(boundedJson(`[${"[[[]]],".repeat(600_000)}0]`)).toBeUndefined();
  expect(boundedJson("[".repeat(100) + "]".repeat(100))).toBeUndefined();
});
