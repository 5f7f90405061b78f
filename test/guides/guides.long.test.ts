// Runs every guide of docs/guide, from its first command to its last, like a user who pastes the commands.

import { describe, expect, it } from "vitest";
import { guides, missingLine, runGuide } from "./guide.ts";

const MINUTES = 5;

describe("the guides", () => {
  it.each(guides())("%s works as written", { timeout: (MINUTES + 1) * 60_000 }, async (name) => {
    const { code, wrong, output } = await runGuide(name, MINUTES * 60_000);
    expect({ code, wrong }, output.slice(-6_000)).toEqual({ code: 0, wrong: [] });
  });

  it("are checked word by word: a line that was not printed is noticed", () => {
    expect(missingLine("a … c\nlast", "x\na b c\nlast\n")).toBe(null);
    expect(missingLine("last\na", "a\nlast\n")).toBe("a");
  });
});
