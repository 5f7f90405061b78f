/** Facts that need no label. */
const PLAIN = new Set(["gpu", "machine", "memory", "place"]);

/** An offer as one line: its facts, or its id if it has none. */
export const offerWords = ({ id, facts }: { id: string; facts: Readonly<Record<string, string>> }): string =>
  Object.entries(facts)
    .map(([name, value]) => (PLAIN.has(name) ? value : `${name} ${value}`))
    .join(" · ") || id;
