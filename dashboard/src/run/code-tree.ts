// The files of a snapshot as folders. Pure: the list on the Code tab draws the rows and remembers the open folders.

import type { CodeSnapshot } from "../../../src/schemas/job.ts";

type CodeFile = CodeSnapshot["files"][number];

export interface Folder {
  /** Its path, without a slash at the end; empty for the top. */
  path: string;
  /** `a/b/c` if each of these folders has nothing but the next. */
  name: string;
  folders: Folder[];
  files: { name: string; file: CodeFile }[];
  /** Of all files below it. */
  bytes: number;
}

export interface TreeRow {
  /** Of a folder, or of a file. */
  path: string;
  name: string;
  level: number;
  /** Place among its siblings, from 1, and their number. */
  place: number;
  siblings: number;
  bytes: number;
  /** Null for a file. */
  isOpen: boolean | null;
  isExecutable: boolean;
}

const { compare } = new Intl.Collator("en", { numeric: true });

export function treeOf(files: readonly CodeFile[]): Folder {
  const top: Folder = { path: "", name: "", folders: [], files: [], bytes: 0 };
  const known = new Map([["", top]]);
  const folderAt = (path: string): Folder => {
    const found = known.get(path);
    if (found) return found;
    const cut = path.lastIndexOf("/");
    const made: Folder = { path, name: path.slice(cut + 1), folders: [], files: [], bytes: 0 };
    known.set(path, made);
    folderAt(path.slice(0, Math.max(0, cut))).folders.push(made);
    return made;
  };
  for (const file of files) {
    const cut = file.path.lastIndexOf("/");
    folderAt(file.path.slice(0, Math.max(0, cut))).files.push({ name: file.path.slice(cut + 1), file });
  }
  return { ...finished(top), name: "" };
}

/** Sorted, with sizes, and with each chain of lone folders as one. */
function finished(folder: Folder): Folder {
  const [only] = folder.folders;
  if (folder.path !== "" && folder.files.length === 0 && folder.folders.length === 1 && only) {
    const inner = finished(only);
    return { ...inner, name: `${folder.name}/${inner.name}` };
  }
  const folders = folder.folders.map(finished).sort((a, b) => compare(a.name, b.name));
  const files = folder.files.toSorted((a, b) => compare(a.name, b.name));
  const bytes = [...folders, ...files.map(({ file }) => ({ bytes: file.size }))].reduce(
    (sum, each) => sum + each.bytes,
    0,
  );
  return { ...folder, folders, files, bytes };
}

/** The rows in view: each folder, and below an open one its folders and files. */
export function rowsOf(folder: Folder, open: ReadonlySet<string>, level = 1): TreeRow[] {
  const siblings = folder.folders.length + folder.files.length;
  const rows = folder.folders.flatMap((each, i): TreeRow[] => {
    const { path, name, bytes } = each;
    const isOpen = open.has(path);
    const row = { path, name, level, place: i + 1, siblings, bytes, isOpen, isExecutable: false };
    return isOpen ? [row, ...rowsOf(each, open, level + 1)] : [row];
  });
  return [
    ...rows,
    ...folder.files.map(({ name, file }, i): TreeRow => ({
      path: file.path,
      name,
      level,
      place: folder.folders.length + i + 1,
      siblings,
      bytes: file.size,
      isOpen: null,
      isExecutable: file.mode === "executable",
    })),
  ];
}

/** The folders that lead to a file, outermost first. */
export const foldersTo = (path: string): string[] =>
  path
    .split("/")
    .slice(0, -1)
    .map((_, i, parts) => parts.slice(0, i + 1).join("/"));

export const allFolders = (folder: Folder): string[] =>
  folder.folders.flatMap((each) => [each.path, ...allFolders(each)]);
