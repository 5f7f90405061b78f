// The configuration of VitePress. `scripts/site.ts` copies it next to a copy of `docs/`, where VitePress finds it.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";

const PAGES = dirname(import.meta.dirname);

const titled = (text) => text[0].toUpperCase() + text.slice(1);

/** The sidebar repeats docs/README.md: each folder is a room, each link in a table is a page. */
function sidebar() {
  const rooms = [];
  for (const line of readFileSync(join(PAGES, "README.md"), "utf8").split("\n")) {
    const cell = /^\| (.*?) \|/.exec(line)?.[1] ?? "";
    for (const [, text, target] of cell.matchAll(/\[([^\]]+)\]\(([^)#]+\.md)\)/g)) {
      if (target.startsWith("..")) continue;
      const name = titled(target.replace(/\/.*/, ""));
      if (rooms.at(-1)?.text !== name) rooms.push({ text: name, collapsed: rooms.length > 1, items: [] });
      rooms.at(-1).items.push({ text: titled(text), link: `/${page(target)}` });
    }
  }
  return rooms;
}

const page = (path) => path.replace(/(^|\/)README\.md$/, "$1").replace(/\.md$/, "");

/** Removes links to files outside the documentation, and keeps their text: the sources do not travel with the pages. */
function withoutLinksOutside(md) {
  md.core.ruler.push("links-outside", (state) => {
    const here = state.env.relativePath ?? "";
    for (const token of state.tokens) if (token.children) token.children = inside(token.children, here);
  });
}

function inside(tokens, here) {
  let dropped = false;
  return tokens.filter((token) => {
    if (token.type === "link_open") dropped = leavesPages(token.attrGet("href") ?? "", here);
    const drop = dropped && /^link_(open|close)$/.test(token.type);
    if (token.type === "link_close") dropped = false;
    return !drop;
  });
}

function leavesPages(href, here) {
  if (/^([a-z]+:|#)/i.test(href)) return false;
  const path = posix.join(posix.dirname(source(here)), decodeURI(href.replace(/[#?].*$/, "")));
  return path.startsWith("..") || !existsSync(join(PAGES, path)) || !/\.(md|png)$/.test(path);
}

/** Generated pages begin with a comment for the reader of the source. */
const withoutComments = (md) =>
  md.core.ruler.before("normalize", "comments", (state) => {
    state.src = state.src.replaceAll(/^<!--.*-->$/gm, "");
  });

/** A row of a table that begins with a code, such as that of an error, can be linked to by it. */
const withNamedRows = (md) =>
  md.core.ruler.push("named-rows", ({ tokens }) => {
    for (const [i, token] of tokens.entries()) {
      if (token.type !== "tr_open" || tokens[i + 1]?.type !== "td_open") continue;
      const [only, ...more] = tokens[i + 2]?.children ?? [];
      if (only?.type === "code_inline" && more.length === 0) token.attrSet("id", only.content);
    }
  });

/** VitePress names a page by its new name; links are relative to the old one. */
const source = (here) => here.replace(/(^|\/)index\.md$/, "$1README.md");

export default {
  title: "svc",
  description: "A control plane on your own machine for the GPU machines that your training runs need.",
  base: "/docs/",
  head: [["link", { rel: "icon", type: "image/svg+xml", href: "/favicon.svg" }]],
  outDir: "../site",
  cacheDir: "../vite-cache",
  cleanUrls: true,
  // One page after the other, so that the search index is the same in every build.
  buildConcurrency: 1,
  rewrites: (id) => id.replace(/(^|\/)README\.md$/, "$1index.md"),
  // Pages contain text such as `<job>` and no HTML.
  markdown: {
    config: (md) => void md.set({ html: false }).use(withoutComments).use(withoutLinksOutside).use(withNamedRows),
  },
  themeConfig: {
    logoLink: { link: "/", target: "_self" },
    siteTitle: "← Dashboard",
    nav: [
      { text: "Documentation", link: "/" },
      { text: "Try the HTTP API", link: "/api.html", target: "_self" },
    ],
    sidebar: sidebar(),
    outline: [2, 3],
    search: {
      provider: "local",
      // Decisions and long tables of measurements would hide the pages that answer a question.
      options: {
        _render: (text, env, md) => (/^(internals\/adr|quality)\//.test(env.relativePath) ? "" : md.render(text, env)),
      },
    },
  },
  vite: { logLevel: "warn", build: { chunkSizeWarningLimit: 2_000 } },
};
