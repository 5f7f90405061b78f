// Builds dist/: the CLI with its control plane as split chunks, so that a command loads only what it needs, and the
// dashboard, and the manual page. Native and large packages that gain nothing from bundling stay in node_modules.

import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { build, type BuildOptions, type Metafile, type Plugin } from "esbuild";
import { allCommands } from "../src/cli/commands/index.ts";
import { buildDashboard, DASHBOARD_DIST } from "./lib/build-dashboard.ts";
import { manPage } from "./lib/man-page.ts";

const root = join(import.meta.dirname, "..");
const started = performance.now();

/** Files with a name of their own: a thread is started by a path, and src/cli/columns.ts loads its package late. */
const ENTRIES = {
  cli: "src/cli/main.ts",
  "chunks/hash-worker": "src/files/hash-worker.ts",
  "chunks/string-width": "string-width",
};
/** What every command loads, and a command that reads the store. */
const CORE = ["program", "store", "text", "cells", "redraw"].map((name) => `src/cli/${name}.ts`);

/**
 * Makes one chunk of the core. esbuild makes a chunk for each set of entries that share code, which would be forty for
 * `svc jobs`, and Node needs a quarter of a millisecond for each. So every entry imports the core, whose code then has
 * the same set everywhere; `program` has loaded it by then in any case.
 */
function withCore(parts: Metafile): Plugin {
  const entries = new Set(
    Object.values(parts.outputs).flatMap(({ entryPoint }) =>
      entryPoint?.startsWith("src/") && !Object.values(ENTRIES).includes(entryPoint) ? [join(root, entryPoint)] : [],
    ),
  );
  // Relative: a path of this computer would move the columns of the source map, and so change the name of the chunk.
  const coreFrom = (path: string): string =>
    CORE.map((file) => `import ${JSON.stringify(`./${relative(dirname(path), join(root, file))}`)};`).join("");
  return {
    name: "core",
    setup(build) {
      build.onLoad({ filter: /\.ts$/ }, ({ path }) =>
        entries.has(path) ? { contents: coreFrom(path) + readFileSync(path, "utf8"), loader: "ts" } : undefined,
      );
    },
  };
}

/** `z` brings the messages of zod in 60 languages, a fifth of what the control plane keeps as source text. svc uses English. */
const inEnglish: Plugin = {
  name: "zod in English",
  setup: (build) =>
    build.onLoad({ filter: /\/zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: 'export { default as en } from "./en.js";',
    })),
};

rmSync(join(root, "dist", "chunks"), { recursive: true, force: true });
const options = {
  absWorkingDir: root,
  entryPoints: ENTRIES,
  outdir: "dist",
  outExtension: { ".js": ".mjs" },
  chunkNames: "chunks/[name]-[hash]",
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node22.14",
  // better-sqlite3 finds its addon from its own folder. ssh2 works without its optional addons.
  external: ["better-sqlite3", "cpu-features", "*.node"],
  // CommonJS packages inside an ES module still call require, and ask for their own path.
  banner: {
    js: [
      'import { createRequire as __createRequire } from "node:module";',
      "const require = __createRequire(import.meta.url), __filename = import.meta.filename, __dirname = import.meta.dirname;",
    ].join(" "),
  },
  legalComments: "none",
  // A smaller source takes less memory; names stay, for stack traces.
  minifyWhitespace: true,
  minifySyntax: true,
  sourcemap: "linked",
  sourcesContent: false,
  logLevel: "warning",
  metafile: true,
} as const satisfies BuildOptions;
const { metafile: parts } = await build({ ...options, plugins: [inEnglish], write: false });
const result = await build({ ...options, plugins: [inEnglish, withCore(parts)] });
// A source with one character beyond ASCII takes two bytes of memory for each. esbuild escapes them, except in regular expressions.
for (const name of Object.keys(result.metafile.outputs).filter((name) => name.endsWith(".mjs"))) {
  const found = /[^\0-\x7f]/.exec(readFileSync(join(root, name), "utf8"));
  if (found) throw new Error(`${name} contains ${found[0]}: write it as an escape in the regular expression.`);
}
// The simulated providers of `svc sim`: one file, and the scripts of their machines next to it.
await build({
  absWorkingDir: root,
  entryPoints: { serve: "test/sim/serve.ts" },
  outdir: "dist/sim",
  outExtension: { ".js": ".mjs" },
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node22.14",
  legalComments: "none",
  minifyWhitespace: true,
  minifySyntax: true,
  logLevel: "warning",
});
for (const name of ["machine.sh", "init.py", "nvidia-smi"])
  copyFileSync(join(root, "test", "sim", "machines", name), join(root, "dist", "sim", name));
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
mkdirSync(join(root, "dist", "man"), { recursive: true });
writeFileSync(join(root, "dist", "man", "svc.1"), manPage(await allCommands(), version));
const sizes = Object.entries(result.metafile.outputs).filter(([name]) => name.endsWith(".mjs"));
console.log(`dist/: ${sizes.length} files, ${Math.round(sizes.reduce((sum, [, o]) => sum + o.bytes, 0) / 1024)} KiB`);

await buildDashboard("warn");
console.log(`dashboard/dist/: index.html, ${statSync(join(DASHBOARD_DIST, "index.html")).size} bytes`);
console.log(`built in ${((performance.now() - started) / 1000).toFixed(1)} s`);
