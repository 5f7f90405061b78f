// Builds the dashboard into dashboard/dist, which `svc serve` hands out under a strict Content-Security-Policy: nothing is
// inlined, and nothing comes from another host.

import { defineConfig, type Plugin } from "vite";
import { z } from "zod";
import { NotifyTargetBody } from "../src/schemas/notify.ts";
import { SubmitBody } from "../src/schemas/spec.ts";

/** Made here from the schemas, so that the browser need not carry zod: what the forms are drawn from. */
const MADE: Record<string, () => unknown> = {
  "virtual:submit-schema": () => z.toJSONSchema(SubmitBody, { io: "input", unrepresentable: "any" }),
  "virtual:notify-schema": () => z.toJSONSchema(NotifyTargetBody, { io: "input", unrepresentable: "any" }),
};

const fromSchemas: Plugin = {
  name: "from-schemas",
  resolveId: (id) => (id in MADE ? `\0${id}` : undefined),
  load(id) {
    const make = id.startsWith("\0") ? MADE[id.slice(1)] : undefined;
    return make ? `export default ${JSON.stringify(make())}` : undefined;
  },
};

/** Tells `early.js` in the page which files the program of each page consists of, beyond those of every page. */
const programs: Plugin = {
  name: "programs",
  transformIndexHtml: {
    order: "post",
    handler(html, { bundle = {} }) {
      const chunks = Object.values(bundle).filter((each) => each.type === "chunk");
      const known = new Map(chunks.map((chunk) => [chunk.fileName, chunk]));
      const withImports = (name: string, found = new Set<string>()): Set<string> => {
        if (found.has(name)) return found;
        found.add(name);
        for (const each of known.get(name)?.imports ?? []) withImports(each, found);
        return found;
      };
      const first = new Set(
        chunks.filter((chunk) => chunk.isEntry).flatMap(({ fileName }) => [...withImports(fileName)]),
      );
      const pages = chunks.flatMap(({ fileName, facadeModuleId }) => {
        const page = /\/pages\/(\w+)(?:-run)?-page\.tsx$/.exec(facadeModuleId ?? "")?.[1];
        if (page === undefined) return [];
        return [[page, [...withImports(fileName)].filter((name) => !first.has(name)).map((name) => `/${name}`)]];
      });
      return html.replace(
        'name="svc-programs" content=""',
        () => `name="svc-programs" content='${JSON.stringify(Object.fromEntries(pages))}'`,
      );
    },
  },
};

export default defineConfig({
  root: import.meta.dirname,
  base: "/",
  plugins: [fromSchemas, programs],
  oxc: { jsx: { runtime: "automatic" } },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
    // On a slow computer it would print advice about plugins into the set-up of whoever only wants to start.
    rolldownOptions: {
      // What several pages use is one file: a page's program is one further request, not eight.
      output: { codeSplitting: { groups: [{ name: "shared", minShareCount: 2 }] } },
      checks: { pluginTimings: false },
    },
  },
});
