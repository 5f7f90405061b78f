// Reads the step of a checkpoint from its name, for people: the dashboard and `svc rm --checkpoint`. An announced step takes precedence.

/**
 * A word for a counter, or a number at the end of the file's name: `weights-040.json`. A shard's number does not count.
 */
const NAMED = /(?:step|epoch|iter|iteration|checkpoint|ckpt|global_step)[-_=]?0*(\d{1,12})/gi;
const LAST = /(?:^|(?<!of|rank|part|shard|node)[-_=])0*(\d{1,12})(?:\.[a-z][a-z\d]*)*$/i;

/** The step in a path; null if it has none. */
export function stepInName(path: string): number | null {
  const found = [...path.matchAll(NAMED)].at(-1) ?? LAST.exec(path.split("/").at(-1) ?? "");
  return found ? Number(found[1]) : null;
}
