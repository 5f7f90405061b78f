// The last words of the launcher (python/svc/_launch.py) on the log of a node. A script could print them, too: they decide
// nothing, and only make a failure's message plainer.

/** The rank that failed first, in words, and the signal that ended it; null where the launcher said nothing. */
export function failedRank(tail: string): { who: string; signal: string | null } | null {
  const said = [...tail.matchAll(/^svc: (rank [0-9]+(?: \(local rank [0-9]+ of node [0-9]+\))?) (.*)$/gm)].at(-1);
  if (!said) return null;
  const [, who = "", how = ""] = said;
  return { who, signal: /^was ended by (SIG[A-Z0-9]+|signal [0-9]+)$/.exec(how.trim())?.[1] ?? null };
}

/** What the launcher could not find. */
export function missingLauncher(tail: string): { launcher: string; why: string } | null {
  const said = [...tail.matchAll(/^svc: launcher_missing: (torchrun|ray): (.{1,300})$/gm)].at(-1);
  return said ? { launcher: said[1]!, why: said[2]!.trim() } : null;
}
