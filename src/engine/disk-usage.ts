import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { pathsOfRun } from "../platform/home-layout.ts";

/**
 * The disk usage of a run's files: a file with several hard links counts once, and holes of a sparse file do not count.
 */
export async function diskUsage(home: string, jobId: string): Promise<number> {
  const seen = new Set<string>();
  let bytes = 0;
  const measure = async (path: string): Promise<void> => {
    const stats = await lstat(path).catch(() => null);
    if (stats === null) return;
    const inode = `${stats.dev}:${stats.ino}`;
    if (!seen.has(inode)) bytes += stats.blocks * 512;
    if (stats.nlink > 1 && !stats.isDirectory()) seen.add(inode);
    if (!stats.isDirectory()) return;
    // Unreadable and vanished files are left out of the sum.
    const names = await readdir(path).catch(() => []);
    for (const name of names) await measure(join(path, name));
  };
  for (const path of pathsOfRun(home, jobId)) await measure(path);
  return bytes;
}
