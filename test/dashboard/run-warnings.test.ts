import { describe, expect, it } from "vitest";
import { dashboard, expectSound, LOOKS } from "./browser.ts";
import type { FakeWorld } from "./fake-server.ts";
import { fakeRun, HOSTILE, step } from "./fake-world.ts";

const LOST = `The script saved files outside of the checkpoint directory, which svc does not download: outputs/model.pt (300 kB), lightning_logs/version_0/checkpoints/epoch=3.ckpt (12 MB), ${HOSTILE}.joblib (9 kB). They are deleted with the machine. Save them in the right place next time.`;

function lossyWorld(): FakeWorld {
  const run = fakeRun("lossy", 100, { label: "lossy", provider: "podhost", gpus: "L4:1" });
  run.timeline.steps = [step("stream", 90, 20), step("collect", 20, 10, { detail: { warnings: [LOST] } })];
  return { runs: [run], machines: [], providers: [] };
}

describe("a run that lost files with its machine", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  it.each(LOOKS)(
    "says so above its overview although it succeeded, at $width pixels in $colorScheme",
    async ({ width, colorScheme }) => {
      const opened = await board.open("/runs/lossy", { viewport: { width, height: 900 }, colorScheme }, lossyWorld());
      const { page } = opened;
      try {
        const banner = page.locator(".banner-warn");
        await banner.getByText("They are deleted with the machine.").waitFor();
        expect(await banner.locator("code").count(), "a folder does not look like the name of a field").toBe(0);
        expect(await banner.count()).toBe(1);
        expect(await banner.innerText()).toContain("epoch=3.ckpt (12 MB)");
        const box = await banner.boundingBox();
        expect(box!.y + box!.height, "it is seen without scrolling").toBeLessThan(900);
        await expectSound(opened);
      } finally {
        await opened.close();
      }
    },
  );
});
