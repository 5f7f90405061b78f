// The next candidate after an image that cannot start, by the images and providers of the candidates.

import { expect, it } from "vitest";
import { placementRules } from "../../src/machines/placement-rules.ts";
import { ruledOut } from "../../src/machines/next-placement.ts";
import { RunSpec, type RunSpecInput } from "../../src/schemas/spec.ts";
import { after, errorOf, first, input, type Snapshot } from "./walk.ts";

type Candidate = readonly [provider: "podhost" | "market" | "cloudvm", image?: string];

const begin = (candidates: readonly Candidate[], more: Partial<RunSpecInput> = {}): Snapshot => {
  const spec = RunSpec.parse({
    entrypoint: "train.py",
    provider: candidates[0]?.[0],
    gpus: "A100",
    candidates: candidates.map(([provider, image]) => ({ provider, ...(image === undefined ? {} : { image }) })),
    ...more,
  });
  return first(input(1, null, placementRules(spec, true)));
};

/** A job whose image cannot start at these candidates, one after the other. */
const failedAt = (job: Snapshot, ...candidates: number[]): Snapshot =>
  candidates.reduce(
    (snapshot, candidate) =>
      after(
        snapshot,
        { type: "place.done", node: 0, candidate },
        { type: "provision.done", node: 0 },
        { type: "step.failed", step: "await_ssh", node: 0, error: errorOf("no such image"), failure: "image_failed" },
        { type: "terminate.done", node: 0, checkpoint: null },
      ),
    job,
  );

const left = ({ value, context }: Snapshot): number[] | string =>
  value !== "waiting"
    ? value
    : (context.rules.images ?? []).flatMap((_, index) =>
        ruledOut(context).some(({ candidate }) => candidate === index) ? [] : [index],
      );

it.each<[string, readonly Candidate[], number[], number[] | string]>([
  [
    "another image at the same provider is tried",
    [
      ["podhost", "a"],
      ["podhost", "b"],
    ],
    [0],
    [1],
  ],
  [
    "another image at another provider is tried",
    [
      ["podhost", "a"],
      ["market", "b"],
    ],
    [0],
    [1],
  ],
  [
    "the same image at the same provider is not",
    [
      ["podhost", "a"],
      ["podhost", "a"],
    ],
    [0],
    "terminal",
  ],
  [
    "the same image is tried at a second provider",
    [
      ["podhost", "a"],
      ["market", "a"],
    ],
    [0],
    [1],
  ],
  [
    "but not at a third one",
    [
      ["podhost", "a"],
      ["market", "a"],
      ["cloudvm", "a"],
    ],
    [0, 1],
    "terminal",
  ],
  ["the default images of two providers are two images", [["podhost"], ["market"], ["podhost"]], [0], [1]],
  ["a default is not an image with a name", [["podhost", "a"], ["podhost"]], [0], [1]],
  [
    "each image counts for itself",
    [
      ["podhost", "a"],
      ["market", "b"],
      ["market", "a"],
    ],
    [0],
    [1, 2],
  ],
  [
    "no candidate is left",
    [
      ["podhost", "a"],
      ["market", "b"],
    ],
    [0, 1],
    "terminal",
  ],
  ["a job without another candidate ends", [["podhost", "a"]], [0], "terminal"],
])("After an image that cannot start: %s", (_, candidates, failed, expected) => {
  expect(left(failedAt(begin(candidates), ...failed))).toEqual(expected);
});

it.each<[string, RunSpecInput["retry"], number[] | string]>([
  ["boot_failed is not named", { max: 2, on: ["machine_unfit"] }, "terminal"],
  ["no retry is left", { max: 0, on: ["boot_failed"] }, "terminal"],
  ["boot_failed is named", { max: 1, on: ["boot_failed"] }, [1]],
])("The same image at a second provider, if %s", (_, retry, expected) => {
  expect(
    left(
      failedAt(
        begin(
          [
            ["podhost", "a"],
            ["market", "a"],
          ],
          { retry },
        ),
        0,
      ),
    ),
  ).toEqual(expected);
});

it("The next candidate with another image needs no retry, and a wait does not bring back the image that failed", () => {
  const job = failedAt(
    begin(
      [
        ["podhost", "a"],
        ["market", "b"],
      ],
      { retry: { max: 0, on: [] } },
    ),
    0,
  );
  expect(job.context).toMatchObject({
    retries: 0,
    bad_images: [{ candidate: 0, message: errorOf("no such image").message }],
  });
  const refused = after(
    job,
    { type: "place.done", node: 0, candidate: 1 },
    { type: "step.failed", step: "provision", node: 0, error: errorOf("sold out"), failure: "no_machine" },
    { type: "terminate.done", node: 0, checkpoint: null },
  );
  expect(left(refused)).toEqual([1]);
  expect(ruledOut(refused.context)).toEqual([{ candidate: 0, message: errorOf("no such image").message }]);
});

it("An image that cannot start ends the job with its own reason when no candidate is left", () => {
  const over = failedAt(
    begin([
      ["podhost", "a"],
      ["market", "b"],
    ]),
    0,
    1,
  );
  expect([over.value, over.context.outcome, over.context.error?.code]).toEqual(["terminal", "failed", "no such image"]);
});
