// Colours for the text of a file: tokens of highlight.js as elements. Loaded when a file of a known language is shown.

import { createElement, Fragment, type ReactNode } from "react";
import bash from "highlight.js/lib/languages/bash";
import cpp from "highlight.js/lib/languages/cpp";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import ini from "highlight.js/lib/languages/ini";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";
import type { Language } from "./language.ts";

const languages: Record<Language, typeof python> = { bash, cpp, dockerfile, ini, json, markdown, python, yaml };
const lowlight = createLowlight(languages);

type Nodes = ReturnType<typeof lowlight.highlight>["children"];

/** The lines of the same text, each as elements. Nothing of it is ever read as HTML. */
export function highlighted(language: Language, text: string): ReactNode[] {
  const lines: ReactNode[][] = [[]];
  const add = (nodes: Nodes, names: readonly string[]): void => {
    for (const node of nodes) {
      if (node.type === "element") {
        const own = node.properties["className"];
        add(node.children, [...names, Array.isArray(own) ? own.join(" ") : ""]);
      }
      // A token of several lines, such as a long string, continues on each of them.
      if (node.type === "text")
        for (const [i, part] of node.value.split("\n").entries()) {
          if (i > 0) lines.push([]);
          if (part !== "") lines.at(-1)?.push(within(names, part));
        }
    }
  };
  add(lowlight.highlight(language, text, { prefix: "hl-" }).children, []);
  return lines.map((parts, i) => createElement(Fragment, { key: i }, ...parts));
}

const within = (names: readonly string[], part: ReactNode): ReactNode =>
  names.reduceRight<ReactNode>((inner, className) => createElement("span", { className }, inner), part);
