import { readdirSync } from "node:fs";

/** The pages of the documentation in a folder, by their paths without the ending; none where it was not installed. */
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
