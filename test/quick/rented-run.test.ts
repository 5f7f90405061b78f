// One run on a simulated rented machine: svc orders it, connects over SSH, runs the script, and releases it. For the
// other providers and all faults see test/rented, test/conformance and `npm run matrix`.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { expect, it } from "vitest";
import { runCell } from "../rented/cell.ts";

it("A rented run succeeds, its machine is released, and a foreign machine is left alone", async () => {
  const outcome = await runCell({ provider: "podhost", fault: "none", kill: null, seed: 1 });
  expect(outcome).toMatchObject({ wrong: [], came: "succeeded", lives: 1 });
});
