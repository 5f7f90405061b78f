// Ends a test run with one line that people and CI read alike: `N passed, N failed, N skipped`. With SVC_TEST_FAILED set to a path,
// the files in which something failed are written there, a line each, for whoever wants to look at them again.

import { writeFileSync } from "node:fs";
import type { SerializedError } from "vitest";
import type { Reporter, TestModule } from "vitest/node";

export default class ClosingLineReporter implements Reporter {
  #line: string | undefined;

  /** Printed when the process exits, since other reporters still write after their turn. */
  onInit(): void {
    process.once("exit", () => {
      if (this.#line !== undefined) process.stdout.write(`${this.#line}\n`);
    });
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const count = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    const files: string[] = unhandledErrors.map(() => "(no file)");
    for (const module of modules) {
      // A file that could not be loaded, or whose hooks failed, has failed even where no test of it did.
      let failedInside = 0;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === "passed") count.passed += 1;
        else if (state === "failed") failedInside += 1;
        else count.skipped += 1;
      }
      if (module.state() === "failed") files.push(module.relativeModuleId);
      count.failed += failedInside === 0 && module.state() === "failed" ? 1 : failedInside;
    }
    const list = process.env["SVC_TEST_FAILED"];
    if (list !== undefined) writeFileSync(list, files.map((file) => `${file}\n`).join(""));
    this.#line = `${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`;
  }
}
