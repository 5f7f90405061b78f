import { expect, it } from "vitest";
import { Redactor } from "../../src/domain/redaction.ts";
import { firstChars, lastBytes, lastChars } from "../../src/domain/terminal-text.ts";
import { SvcError } from "../../src/errors/index.ts";
import { shortLine } from "../../src/ssh/words.ts";
import { withHiddenWords } from "../../src/steps/redact-step.ts";
import type { StepContext, StepDefinition, StepDone } from "../../src/steps/step.ts";

const SECRET = "s3cret-of-the-run";
const progress: unknown[] = [];
const context: StepContext = {
  jobId: "j",
  node: 0,
  attempt: 1,
  effectId: 1,
  signal: new AbortController().signal,
  firstFailedAt: () => null,
  progress: (detail) => void progress.push(detail),
};
const step = (run: StepDefinition["run"], secrets = [SECRET]) =>
  withHiddenWords(
    { name: "stream", retry: { attemptsMax: 1, delayMsMin: 0, delayMsMax: 0 }, run },
    () => new Redactor(secrets),
  );

it("progress, reports and results of a run contain no secret that a machine repeats", async () => {
  const told: StepDone = { done: { exit_code: 1, error: { why: SECRET } }, detail: { signal: SECRET, pid: 7 } };
  const hidden = step((given) => {
    given.progress({ doing: `sending to ${SECRET}`, files: 3 });
    return Promise.resolve(told);
  });
  expect(await hidden.run(context)).toEqual({
    done: { exit_code: 1, error: { why: "***redacted***" } },
    detail: { signal: "***redacted***", pid: 7 },
  });
  expect(progress).toEqual([{ doing: "sending to ***redacted***", files: 3 }]);
});

it.each([
  ["an error of ours", new SvcError("runner_failed", { why: `it refuses ${SECRET}` }), "runner_failed"],
  ["any other", new Error(`no ${SECRET}`), "internal_error"],
])("%s keeps its code and its cause, and loses the secret", async (_what, thrown, code) => {
  const error = (await step(() => Promise.reject(thrown))
    .run(context)
    .catch((e: unknown) => e)) as SvcError;
  expect(error).toMatchObject({ code, message: expect.stringContaining("***redacted***") as string });
  expect(JSON.stringify(error.toJobError())).not.toContain(SECRET);
});

it("an error that loses a secret keeps whether the step is retried", async () => {
  const thrown = new SvcError("ssh_key_unusable", { path: `/${SECRET}`, why: "no agent" }, { retry: "backoff" });
  await expect(step(() => Promise.reject(thrown)).run(context)).rejects.toMatchObject({ retry: "backoff" });
});

it("an error without a secret stays the same object", async () => {
  const thrown = new SvcError("runner_failed", { why: "no room" });
  await expect(step(() => Promise.reject(thrown)).run(context)).rejects.toBe(thrown);
  await expect(step(() => Promise.reject(thrown), []).run(context)).rejects.toBe(thrown);
});

const SHORT = "s3cret-0f-thé-r\u{1f511}n";
const LONG = Array.from({ length: 200 }, (_, i) => `s3cret-${i * i}`).join("");

it.each([
  ["the first line of a message", shortLine, "after"],
  ["the beginning of a text", (text: string) => firstChars(text, 300), "after"],
  ["the end of a text", (text: string) => lastChars(text, 300), "before"],
  ["the end of bytes", (text: string) => lastBytes(Buffer.from(text), 300).toString("utf8"), "before"],
  [
    "the middle of a text",
    (text: string) => shortLine(lastBytes(Buffer.from(text), 800).toString("utf8")),
    "before",
    LONG,
  ],
])("%s shows no part of a secret, wherever it is cut", async (_what, cut, filler, secret = SHORT) => {
  for (let n = 270; n < 310; n++) {
    const text =
      filler === "after"
        ? `${"y".repeat(n)}${secret}${"z".repeat(400)}`
        : `${"y".repeat(700)}${secret}${"z".repeat(n)}`;
    const thrown = new SvcError("ssh_unreachable", { machine: "m", why: cut(text) });
    const error = (await step(() => Promise.reject(thrown), [secret])
      .run(context)
      .catch((e: unknown) => e)) as SvcError<"ssh_unreachable">;
    const shown = error.data.why.replaceAll(/^…?y+|z+…?$|…|\*\*\*redacted\*\*\*/g, "");
    // So short a part proves nothing.
    expect(Buffer.byteLength(shown), error.data.why).toBeLessThan(6);
  }
});

const failing = (run: StepDefinition["run"]) =>
  withHiddenWords({ name: "collect", retry: { attemptsMax: 1, delayMsMin: 0, delayMsMax: 0 }, run }, () => {
    throw new SvcError("home_unusable", { home: "/h", why: "cannot be read" });
  });

it("without a redactor an error keeps its code and its retry, and every text is withheld", async () => {
  progress.length = 0;
  const step = failing((given) => {
    given.progress({ doing: `sending ${SECRET}`, files: [{ name: SECRET, size: 3 }], [`x-${SECRET}`]: true });
    return Promise.reject(new SvcError("machine_lost", { machine: "m", why: SECRET } as never, { retry: "never" }));
  });
  const error = (await step.run(context).catch((e: unknown) => e)) as SvcError;
  expect(error).toMatchObject({ code: "machine_lost", retry: "never" });
  expect(JSON.stringify([error.toJobError(), error.data, progress])).not.toContain(SECRET);
  expect(progress).toEqual([
    { doing: "***redacted***", files: [{ name: "***redacted***", size: 3 }], "***redacted***": true },
  ]);
});

it("without a redactor a result of numbers passes, and one of words is tried again", async () => {
  const numbers: StepDone = { done: { exit_code: null }, detail: { left: [SECRET], checkpoints: 2 } };
  expect(await failing(() => Promise.resolve(numbers)).run(context)).toEqual({
    done: { exit_code: null },
    detail: { left: ["***redacted***"], checkpoints: 2 },
  });
  const later = { later: { afterMs: 7, why: SECRET } };
  expect(await failing(() => Promise.resolve(later)).run(context)).toEqual({
    later: { afterMs: 7, why: "***redacted***" },
  });
  const words: StepDone = { done: { exit_code: 1, error: { message: SECRET } } };
  await expect(failing(() => Promise.resolve(words)).run(context)).rejects.toMatchObject({ code: "home_unusable" });
});
