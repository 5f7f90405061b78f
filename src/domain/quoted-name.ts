/** A name that a caller gave, for a message: cut where it is long, and nothing in it that a terminal would obey. Without quotes. */
export const quotedName = (name: string, lengthMax = 200): string =>
  JSON.stringify(name.slice(0, lengthMax)).slice(1, -1);
