/** How a row of the store holds the tags of a run. */
export const storedTags = (tags: readonly string[]): string => JSON.stringify(tags);

/** The stored value is undefined in a home from an older version that no newer one has opened yet. */
export const tagsOf = (stored: string | undefined): string[] =>
  stored === undefined ? [] : (JSON.parse(stored) as string[]);
