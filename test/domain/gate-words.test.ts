import { expect, test } from "vitest";
import { gateWords } from "../../src/domain/gate-words.ts";

test("The test of a machine is one line: what it found, then the numbers", () => {
  const numbers = { gpus: ["L4"], cuda: "12.8", matmul_tflops: [58.1, 57.9], disk_write_mb_s: 800, waited_ms: 12 };
  expect(gateWords(numbers)).toBe("passed (CUDA 12.8, matmul 58.1, 57.9 TFLOPS, disk 800 MB/s)");
  expect(gateWords({ findings: ["its disk writes 9.0 MB/s", "its clock is off"] })).toBe(
    "its disk writes 9.0 MB/s; its clock is off",
  );
  expect(gateWords({})).toBe("passed");
  expect([gateWords("text"), gateWords(null), gateWords([])]).toEqual([null, null, null]);
});
