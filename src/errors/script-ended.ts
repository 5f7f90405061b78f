// How the sentence about a failed script begins. `runs.ts` writes it; a list that has room for one line leaves it out.

/** The subject of such a message for one process on one node. */
export const THE_SCRIPT = "The script";

export const endedWith = (who: string): string => `${who} ended with `;
