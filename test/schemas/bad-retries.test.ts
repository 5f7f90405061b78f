import { expect, it } from "vitest";
import { RunSpec } from "../../src/schemas/spec.ts";

it.each(["oops", "exit:0", "exit:256", "exit:", 7])(
  "A reason to retry that does not exist, %j, is refused with all that do",
  (word) => {
    const parsed = RunSpec.safeParse({
      entrypoint: "train.py",
      provider: "podhost",
      retry: { max: 2, on: ["oom", word] },
    });
    expect(parsed.error?.issues.map(({ path, message }) => [path.join("."), message])).toEqual([
      [
        "retry.on.1",
        "must be machine_lost, preempted, machine_unfit, boot_failed, install_failed, oom or exit:<1 to 255>",
      ],
    ]);
  },
);
