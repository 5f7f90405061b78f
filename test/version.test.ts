import { expect, test } from "vitest";
import { theVersion } from "../scripts/package-parts.ts";

test("package.json, the Python package and the changelog agree on one version", () => {
  expect(theVersion()).toMatch(/^\d+\.\d+\.\d+$/);
});
