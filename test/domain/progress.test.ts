import { describe, expect, it } from "vitest";
import { markOf, progressOf, totalsOf } from "../../src/domain/progress.ts";

describe("a line of a log", () => {
  it.each([
    ["epoch 3/10 loss 0.4", "epoch", 3, 10],
    ["Epoch [2/5], Step [450/1,000], Loss: 0.1", "epoch", 2, 5],
    ["Step: 450 of 1000", "step", 450, 1000],
    [" 45%|████▌     | 450/1000 [00:12<00:15, 36.1it/s]", "", 450, 1000],
    ["Iteration 7/70", "step", 7, 70],
    ["batches 7/70", "step", 7, 70],
  ])("tells progress: %s", (line, unit, done, total) => {
    expect(markOf(line, {})).toEqual({ unit, done, total });
  });

  it.each(["accuracy 3/4", "2026/11/26 loading", "step 12", "epoch 11/10", "", "step 1/1", "100%|█| done"])(
    "without a count of work is none: %s",
    (line) => {
      expect(markOf(line, {})).toBeNull();
    },
  );

  it("takes the total from the arguments", () => {
    const totals = totalsOf(["--max_steps=1000", "--epochs", "40", "--save-steps", "50", "--warmup_steps=9", "x"]);
    expect(totals).toEqual({ step: 1000, epoch: 40 });
    expect(totalsOf(["trainer.max_steps=70", "epochs", "3"])).toEqual({ step: 70 });
    expect(markOf("epoch   7  loss 0.3", totals)).toEqual({ unit: "epoch", done: 7, total: 40 });
  });

  it("is read, at any length and content, in time that grows with a bounded part of it", () => {
    for (const line of [
      "step ".repeat(1e6),
      `${" ".repeat(1e6)}1/2`,
      `9%|${"█".repeat(1e6)}`,
      `epoch ${"1".repeat(1e6)}/2`,
    ])
      expect(markOf(line, { step: 5 })?.total ?? 0).toBeLessThan(10);
  });
});

const lines = (...marks: [text: string, atMs: number][]) => marks.map(([text, atMs]) => ({ text, atMs }));

describe("the estimate of a run's end", () => {
  it("is the pace between the first and the last mark", () => {
    expect(progressOf(lines(["step 100/1000", 0]), lines(["step 400/1000", 3_000]), [])).toEqual({
      unit: "step",
      done: 400,
      total: 1_000,
      share: 0.4,
      endsAtMs: 9_000,
    });
  });

  it("counts only what was done since a resumed start", () => {
    const told = progressOf(lines(["step 900/1000", 0]), lines(["step 950/1000", 10_000]), []);
    expect(told?.endsAtMs).toBe(20_000);
  });

  it("begins again where the counter fell back", () => {
    const told = progressOf(
      lines(["step 1/100", 0], ["step 90/100", 900_000]),
      lines(["step 50/100", 1_000_000], ["step 60/100", 1_001_000]),
      [],
    );
    expect(told?.endsAtMs).toBe(1_005_000);
  });

  it("follows epochs, not the bar within one", () => {
    const told = progressOf(lines(["epoch 1/3", 0]), lines(["epoch 2/3", 60_000], ["99%|██| 99/100 [x", 119_000]), []);
    expect(told).toMatchObject({ unit: "epoch", done: 2, endsAtMs: 120_000 });
  });

  it("is unknown with one mark, and nothing without any", () => {
    expect(progressOf([], lines(["step 4/8", 5]), [])).toMatchObject({ share: 0.5, endsAtMs: null });
    expect(progressOf(lines(["hello", 0]), [], [])).toBeNull();
  });
});
