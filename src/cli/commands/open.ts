// `svc open`: the address of a page of the dashboard, printed and opened in a browser.

import { readToken } from "../../../sdk/discover.ts";
import { SvcError as WireError } from "../../../sdk/errors.ts";
import { linkTicket, LINK_MINUTES } from "../../platform/one-time-link.ts";
import { SvcError } from "../../errors/index.ts";
import { nearest } from "../../domain/nearest.ts";
import { usage } from "../argv.ts";
import { hasBrowser, openBrowser } from "../browser.ts";
import type { Command } from "../command.ts";
import { runningClient } from "../control-plane.ts";
import type { Io } from "../io.ts";
import { withJob } from "../store.ts";
import { printJson } from "../text.ts";

/** The dashboard's pages by the word that people type. */
const PAGES: Readonly<Record<string, string>> = {
  runs: "/",
  new: "/new",
  machines: "/machines",
  costs: "/costs",
  gpus: "/gpus",
  connect: "/connect",
  data: "/data",
  models: "/models",
  notifications: "/notifications",
  docs: "/docs/",
  api: "/docs/api",
};

export const open: Command = {
  name: "open",
  args: "[where]",
  summary: "Open the dashboard, or the page of a run, in a browser; without a browser, print the address",
  options: [{ flags: "--print", what: "Only print the address" }],
  exits: [
    ["3", "no such job"],
    ["5", "no control plane is running"],
  ],
  examples: ["svc open", "svc open last", "svc open costs", "svc open 4k2m --print"],
  completes: (before) => (before.length === 0 ? "jobs" : []),
  async run(input, io) {
    const path = await pathOf(input.args[0] ?? "runs", io);
    const client = await runningClient(io);
    if (client === null)
      throw new WireError({
        code: "unreachable",
        message: `No control plane is running for ${io.home()}.`,
        hint: "`svc serve` starts one, which resumes its runs. Those that were started may continue and cost money.",
      });
    const url = `${client.baseUrl}${path}`;
    const opens = !input.flags.has("print") && hasBrowser(io.env);
    if (input.json) await printJson(io, { url, opened: opens });
    else await io.out(`${url}\n`);
    const token = (await requiresToken(client.baseUrl)) ? readToken(io.home()) : null;
    // Only printed: other users of this computer can read the command line of a browser.
    if (token !== null)
      io.err(
        `This address requires a token. Sign a browser in with this link; it works once, within ${LINK_MINUTES} minutes: ` +
          `${client.baseUrl}/?token=${linkTicket(token, Date.now())}`,
      );
    if (opens) openBrowser(url, io.env, () => io.err("No browser could be opened. Open the address yourself."));
    return 0;
  },
};

const requiresToken = (url: string): Promise<boolean> =>
  fetch(`${url}/v1/health`, { redirect: "manual", signal: AbortSignal.timeout(5_000) }).then(
    (answer) => answer.status === 401,
    () => false,
  );

async function pathOf(where: string, io: Io): Promise<string> {
  const page = Object.hasOwn(PAGES, where) ? PAGES[where] : undefined;
  if (page !== undefined) return page;
  try {
    return await withJob(io, where, (_reads, id) => Promise.resolve(`/runs/${id}`));
  } catch (e) {
    const near = nearest(where, Object.keys(PAGES));
    if (near === null || !(e instanceof SvcError && e.code === "job_not_found")) throw e;
    throw usage(
      `The dashboard has no page \`${where}\`, and there is no such run.`,
      `Did you mean \`svc open ${near}\`? The pages are ${Object.keys(PAGES).join(", ")}.`,
    );
  }
}
