import { describe, it } from "vitest";
import { dashboard, expectSound, LOOKS } from "./browser.ts";

const PAGES: { name: string; path: string; ready: string }[] = [
  { name: "the list", path: "/", ready: "text=digits, two hidden layers" },
  { name: "a running run", path: "/runs/r1-digits", ready: ".log-row >> text=epoch >> nth=0" },
  { name: "a failed run with hostile words", path: "/runs/r2-failed", ready: "text=The script ended with exit code 1" },
  { name: "a retrying run on two nodes", path: "/runs/r3-retry", ready: "text=Attempt 3" },
  { name: "the log", path: "/runs/r4-long?tab=logs", ready: "text=line 5000 of five thousand" },
  { name: "the metrics", path: "/runs/r1-digits?tab=metrics", ready: "canvas >> nth=0" },
  { name: "the checkpoints", path: "/runs/r1-digits?tab=checkpoints", ready: "text=epoch-020/model.bin" },
  { name: "the spec", path: "/runs/r1-digits?tab=spec", ready: "text=The same run from" },
  { name: "the events", path: "/runs/r1-digits?tab=events", ready: "text=Reading the events" },
  { name: "the code", path: "/runs/r1-digits?tab=code&file=train.py", ready: ".code-text .hl-string" },
  { name: "a difference", path: "/runs/r1-digits?tab=code&diff=r2-failed", ready: ".diff-added" },
  { name: "a step", path: "/runs/r3-retry?step=provision.0.1", ready: ".step-detail" },
  { name: "the form", path: "/new", ready: "text=Start run" },
  { name: "the machines", path: "/machines", ready: "text=Machines that may cost money" },
  { name: "the connections", path: "/connect?open=podhost", ready: "#podhost-api_key" },
  { name: "the targets", path: "/connect?open=target-team", ready: "text=The newest message did not arrive" },
  { name: "a new target", path: "/connect?open=notify-new", ready: "#notify-new >> text=Save and send a test" },
  { name: "the rules", path: "/connect?open=notify-rules", ready: "text=Reports a run whose loss is NaN" },
  { name: "the notifications", path: "/notifications", ready: "text=part of a digest" },
  { name: "the costs", path: "/costs?by=project&days=all", ready: "text=Waste >> nth=0" },
  { name: "a receipt", path: "/costs?run=r1-digits", ready: "text=the provider says that it does not exist" },
  { name: "the GPUs", path: "/gpus", ready: ".gpu-card >> text=New run on" },
  { name: "the data", path: "/data?open=digits-8x8", ready: "text=SHA-256 of all files" },
  { name: "the models", path: "/models", ready: "text=acme/tiny" },
  { name: "the notebook cell", path: "/connect/notebook", ready: "text=The cell" },
  { name: "an unknown address", path: "/nothing", ready: "text=Page not found" },
];
describe("pages of the dashboard", { tags: "needs/chromium" }, () => {
  const board = dashboard();
  for (const width of new Set(LOOKS.map((look) => look.width))) {
    for (const { name, path, ready } of PAGES) {
      it(`shows ${name} at ${width} pixels in light and in dark without a browser error`, async () => {
        const opened = await board.open(path, { viewport: { width, height: 900 }, colorScheme: "light" });
        try {
          await opened.page.waitForSelector(ready);
          await opened.page.waitForSelector(".connection-live");
          await expectSound(opened);
          // The scheme of the system may change while the page is open.
          await opened.page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
          await expectSound(opened);
        } finally {
          await opened.close();
        }
      });
    }
  }
});
