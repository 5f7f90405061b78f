// Checks whether the names that a repository lists can be files here. The list comes from another computer and is not
// trusted.
//
// P1. A path stays below its folder: no `..`, no absolute path, no backslash, no drive.
// P2. Names that Windows would refuse or read differently are refused everywhere: models are copied to other computers.
// P3. Two names that some file system treats as the same (case, Unicode forms) are refused, because one would replace
//     the other.
// P4. A repository may not write into the bookkeeping folder, nor into git's: its configuration and hooks are programs that git starts.

const SEGMENT_BYTES_MAX = 255;
const PATH_BYTES_MAX = 1_024;
/**
 * Maximum nesting of folders. The memory for a list grows with the depth, and the server controls the list's length.
 */
const DEPTH_MAX = 32;
const DEVICE = /^(con|prn|aux|nul|com[0-9\u00b9\u00b2\u00b3]|lpt[0-9\u00b9\u00b2\u00b3]|conin\$|conout\$)$/i;
/** Also by its short name on Windows. */
const GIT = /^(?:\.git|git~1)$/i;
/** With the characters that HFS+ passes over in names. */
const PASSED_OVER = /\p{Cf}/gu;

/** The objection to a path, as text; null if the path is valid. */
export function pathObjection(path: string): string | null {
  if (!path.isWellFormed()) return "it is not valid Unicode";
  if (Buffer.byteLength(path) > PATH_BYTES_MAX) return `it is longer than ${PATH_BYTES_MAX} bytes`;
  if (/^\.cache\/huggingface(\/|$)/i.test(path)) return "its folder is the one for bookkeeping";
  const segments = path.split("/");
  if (segments.length > DEPTH_MAX) return `it is more than ${DEPTH_MAX} folders deep`;
  for (const segment of segments) {
    if (segment === "" || segment === "." || segment === "..") return "it does not stay within its folder";
    if (/[\u0000-\u001f\u007f]/.test(segment)) return "it holds control characters";
    if (/[<>:"|?*\\]/.test(segment)) return 'it holds one of < > : " | ? * \\';
    if (/[. ]$/.test(segment)) return "a part of it ends with a dot or a space";
    if (GIT.test(segment.replace(PASSED_OVER, ""))) return `${segment} is git's own folder`;
    if (DEVICE.test(segment.split(".")[0] ?? "")) return `${segment} is a device on Windows`;
    if (Buffer.byteLength(segment) > SEGMENT_BYTES_MAX) return `a part of it is longer than ${SEGMENT_BYTES_MAX} bytes`;
  }
  return null;
}

/** The first path that cannot be stored together with the others. */
export function firstObjection(paths: readonly string[]): { path: string; why: string } | null {
  const files = new Map<string, string>();
  const folders = new Map<string, string>();
  for (const path of paths) {
    const why = pathObjection(path);
    if (why !== null) return { path, why };
    const key = sameName(path);
    const twin = files.get(key) ?? folders.get(key);
    if (twin !== undefined) return { path, why: `some file systems cannot tell it from ${twin}` };
    files.set(key, path);
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      const folder = path.slice(0, end);
      const folderKey = sameName(folder);
      const before = files.get(folderKey);
      if (before !== undefined) return { path, why: `${before} is a file` };
      const spelled = folders.get(folderKey);
      // An earlier path already checked this folder, and those above it.
      if (spelled === folder) break;
      if (spelled !== undefined) return { path, why: `some file systems cannot tell its folder from ${spelled}` };
      folders.set(folderKey, folder);
    }
  }
  return null;
}

const sameName = (path: string): string => path.normalize("NFC").toLowerCase();
