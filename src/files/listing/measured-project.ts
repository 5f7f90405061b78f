// Lists the files of a project with their sizes.

import { lstatSync, statSync, type Stats } from "node:fs";
import { join } from "node:path";
import { SvcError, systemCode } from "../../errors/index.ts";
import { listProject, type ListingOptions, type ProjectListing } from "./project-listing.ts";
import { Slices } from "./slices.ts";

export const PROJECT_BYTES_MAX = 10 * 1024 ** 3;

export interface ProjectFile {
  /** Relative to the project directory, with `/`. */
  path: string;
  size: number;
  executable: boolean;
  mtimeMs: number;
}

export interface MeasuredProject extends Omit<ProjectListing, "files"> {
  /** In order of path. */
  files: ProjectFile[];
  bytes: number;
}

/** The limits above which a project is refused. */
export interface ProjectBounds extends ListingOptions {
  bytesMax?: number;
}

/** For a run that works in place: nothing is sent, so no size is refused. */
export const IN_PLACE = { bytesMax: Infinity, beyond: "leave-out" } as const satisfies ProjectBounds;

/** @param root a real path, as `checkProjectDir` returns it. Throws `project_dir_refused`, also above the bounds. */
export async function measureProject(root: string, bounds: ProjectBounds = {}): Promise<MeasuredProject> {
  const { files: paths, ...listing } = await listProject(root, bounds);
  const bytesMax = bounds.bytesMax ?? PROJECT_BYTES_MAX;
  const files: ProjectFile[] = [];
  const slices = new Slices();
  let bytes = 0;
  for (const path of paths) {
    if (slices.areLong()) await slices.pause();
    const at = join(root, path);
    const stats = targetOf(at);
    // The file vanished since it was listed.
    if (!stats?.isFile()) continue;
    const { size, mode, mtimeMs } = stats;
    bytes += size;
    if (bytes > bytesMax) {
      const why = `holds more than ${(bytesMax / 1024 ** 3).toPrecision(2)} GiB; leave data out with a .svcignore`;
      throw new SvcError("project_dir_refused", { project_dir: root, why });
    }
    files.push({ path, size, executable: (mode & 0o111) !== 0, mtimeMs });
  }
  return { files, bytes, ...listing };
}

/** Undefined if nothing is there any more, or only a symlink that leads to itself. */
function targetOf(at: string): Stats | undefined {
  const stats = lstatSync(at, { throwIfNoEntry: false });
  if (!stats?.isSymbolicLink()) return stats;
  try {
    return statSync(at, { throwIfNoEntry: false });
  } catch (cause) {
    if (systemCode(cause) === "ELOOP") return undefined;
    throw cause;
  }
}
