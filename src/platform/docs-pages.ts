import { readdirSync } from "node:fs";

/** The documentation pages in a folder, by path without the ending; empty if the documentation is not installed. */
export function docsPages(folder: string): string[] {
  try {
    return readdirSync(folder, { recursive: true, encoding: "utf8" })
      .map((path) => path.replaceAll("\\", "/"))
      .filter((path) => /^[\w-]+(\/[\w-]+)*\.md$/.test(path))
      .map((path) => path.slice(0, -3))
      .sort();
  } catch {
    return [];
  }
}
