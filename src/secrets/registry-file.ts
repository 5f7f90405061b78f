// Opens `registry.json`, and the values that are sealed in it. registry.ts checks the rest with its schema; known.ts reads the file
// without one, for every command that prints records.

import { homeLayout } from "../platform/home-layout.ts";
import { installationKey } from "./installation-key.ts";
import { unsealText } from "./sealed.ts";
import { readPlainFile, UnusableFile } from "./store-file.ts";

const BYTES_MAX = 8 * 1024 * 1024;

export type Values = Record<string, string | null>;

/** Null if the file does not exist. Throws `UnusableFile`. */
export function registryJson(home: string): unknown {
  const file = homeLayout.registry(home);
  const text = readPlainFile(file, { bytesMax: BYTES_MAX, ownersAlone: true });
  if (text === null) return null;
  try {
    return JSON.parse(text);
  } catch {
    throw new UnusableFile(`${file} is not valid JSON`);
  }
}

/** Throws `UnusableFile`. */
export function valuesOf(home: string, { sealed }: { sealed: string }): Values {
  const text = unsealText(Buffer.from(sealed, "base64"), installationKey(home));
  if (text === null)
    throw new UnusableFile(
      `${homeLayout.registry(home)} was sealed with another installation.key; call configure() again`,
    );
  // Authenticated: only `putRegistry` can have written it.
  return JSON.parse(text) as Values;
}
