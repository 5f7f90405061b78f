// Colours for the text of a file: tokens of highlight.js as elements. Loaded when a file of a known language is shown.

import { createElement, type ReactNode } from "react";
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

/** The same text as elements. Nothing of it is ever read as HTML. */
export const highlighted = (language: Language, text: string): ReactNode[] =>
  nodesOf(lowlight.highlight(language, text, { prefix: "hl-" }).children);

const nodesOf = (nodes: Nodes): ReactNode[] =>
  nodes.map((node, i) => {
    if (node.type === "text") return node.value;
    if (node.type !== "element") return null;
    const names = node.properties["className"];
    const className = Array.isArray(names) ? names.join(" ") : "";
    return createElement("span", { key: i, className }, ...nodesOf(node.children as Nodes));
  });
