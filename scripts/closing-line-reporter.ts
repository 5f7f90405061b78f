// Ends a test run with one line that people and CI read alike: `N passed, N failed, N skipped`. A line before it counts
// the skipped tests by reason, as `skipped: 9 need sshd (not installed), 3 need root`. With SVC_TEST_FAILED set to a
// path, the reporter writes the paths of the failed files there, one per line, so that `.ci/run` can run them again.

import { writeFileSync } from "node:fs";
import type { SerializedError } from "vitest";
import type { Reporter, TestCase, TestModule, Vitest } from "vitest/node";
import { unmetNeeds } from "../test/needs.ts";

export default class ClosingLineReporter implements Reporter {
  #lines: string[] = [];
  #filtered = false;

  /** Prints when the process exits, because other reporters write until then. */
  onInit({ config }: Vitest): void {
    this.#filtered = config.testNamePattern !== undefined;
    process.once("exit", () => process.stdout.write(this.#lines.map((line) => `${line}\n`).join("")));
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const count = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    const reasons = new Map<string, number>();
    const files: string[] = unhandledErrors.map(() => "(no file)");
    for (const module of modules) {
      // A file has also failed if it could not be loaded, or if its hooks failed without a failed test.
      let failedInside = 0;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === "passed") count.passed += 1;
        else if (state === "failed") failedInside += 1;
        else {
          count.skipped += 1;
          const reason = this.#reason(test);
          reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
        }
      }
      if (module.state() === "failed") files.push(module.relativeModuleId);
      count.failed += failedInside === 0 && module.state() === "failed" ? 1 : failedInside;
    }
    const list = process.env["SVC_TEST_FAILED"];
    if (list !== undefined) writeFileSync(list, files.map((file) => `${file}\n`).join(""));
    const sorted = [...reasons].toSorted(([, a], [, b]) => b - a);
    if (sorted.length > 0) this.#lines.push(`skipped: ${sorted.map(([reason, n]) => `${n} ${reason}`).join(", ")}`);
    this.#lines.push(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
  }

  #reason(test: TestCase): string {
    const result = test.result();
    const note = result?.state === "skipped" ? result.note : undefined;
    return unmetNeeds(test.tags) ?? note ?? (this.#filtered ? "not chosen by -t" : "without a reason");
  }
}
