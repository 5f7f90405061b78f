// `svc docs` prints a page of the documentation, which every installation contains. The last part of its path is enough
// if it is unique.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { docsPages } from "../../platform/docs-pages.ts";
import { nearest } from "../../domain/nearest.ts";
import { usage } from "../argv.ts";
import type { Command } from "../command.ts";
import { page } from "../pager.ts";
import { checkoutRoot } from "../root.ts";
import { printJson } from "../text.ts";

export const docs: Command = {
  name: "docs",
  args: "[page]",
  summary: "Show a page of the documentation, or list all pages; `svc help PAGE` does the same",
  options: [],
  exits: [["2", "no such page"]],
  examples: ["svc docs", "svc docs credentials", "svc docs guide/troubleshooting"],
  completes: (before) => (before.length === 0 ? docsPages(join(checkoutRoot(), "docs")) : []),
  async run(input, io) {
    const folder = join(checkoutRoot(), "docs");
    const pages = docsPages(folder);
    const [asked] = input.args;
    if (asked === undefined) {
      if (input.json) await printJson(io, { pages });
      else await io.out(pages.map((each) => `${each}\n`).join(""));
      if (io.tty) io.err("`svc docs PAGE` prints one page; a running control plane serves them all at /docs.");
      return 0;
    }
    const name = asked.replace(/^docs\//, "").replace(/\.md$/, "");
    const wanted = name.toLowerCase();
    const ending = pages.filter((each) => each.toLowerCase().endsWith(`/${wanted}`));
    const found = pages.find((each) => each.toLowerCase() === wanted) ?? (ending.length === 1 ? ending[0] : undefined);
    if (found === undefined) {
      const near =
        ending[0] ??
        nearest(name, pages) ??
        nearest(
          name,
          pages.map((each) => each.replace(/^.*\//, "")),
        );
      throw usage(
        `The documentation has no page ${asked}.`,
        near ? `Did you mean ${near}?` : speakOf(wanted, folder, pages),
      );
    }
    const text = readFileSync(join(folder, `${found}.md`), "utf8");
    if (input.json) await printJson(io, { page: found, text });
    else await page(io, text);
    return 0;
  },
};

/** The guides and references in which the word is densest: the reader may have typed a subject. */
function speakOf(word: string, folder: string, pages: readonly string[]): string {
  const found = pages
    .filter((each) => /^(guide|reference)\//.test(each))
    .map((each) => {
      const text = readFileSync(join(folder, `${each}.md`), "utf8").toLowerCase();
      return { each, share: (text.split(word).length - 1) / text.length };
    })
    .filter(({ share }) => share > 0)
    .toSorted((a, b) => b.share - a.share)
    .slice(0, 3)
    .map(({ each }) => each);
  return found.length === 0 ? "`svc docs` lists all pages." : `These say most about it: ${found.join(", ")}.`;
}
