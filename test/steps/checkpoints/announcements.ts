import type { Announced } from "../../../src/steps/checkpoints/announcements.ts";

/** What a script has announced, as the collector and the rules ask for it. @param times for each name, how often. */
export const announcements = (times: Map<string, number>, others: Partial<Announced> = {}): Promise<Announced> =>
  Promise.resolve({ times: new Map(times), steps: new Map(), at: new Map(), placements: new Map(), ...others });
