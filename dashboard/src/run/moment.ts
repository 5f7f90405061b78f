/** The address of what happened around a moment of a run. */
export const aroundPath = (id: string, atMs: number): string =>
  `/runs/${encodeURIComponent(id)}?tab=around&at=${Math.round(atMs)}`;
