import { expect, it } from "vitest";
import { worded } from "../../dashboard/src/form/data-words.ts";
import type { Problem } from "../../src/schemas/job.ts";

it("a refusal of data uses the form's names of the fields", () => {
  const message = "must be an absolute path on the computer of the control plane";
  const errors = [{ field: "paths[0]", message }];
  const problem = { detail: `paths[0] ${message}.`, hint: "", errors } as Problem;
  expect(worded(problem).detail).toBe(`Path 1 of Folders and files ${message}.`);
  expect(worded({ ...problem, errors: [] }).detail).toBe(problem.detail);
});
