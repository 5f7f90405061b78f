// The order of checkpoints by age. The clocks of rented machines may be hours off, so the times of two machines are never compared: what a
// later placement of a run saved is newer.

export interface SavedWhen {
  /** The placement whose machine saved it, from 1. */
  placement: number;
  /** In milliseconds, by the clock of that machine. */
  at: number;
}

/** For sorting. */
export const newestFirst = (a: SavedWhen, b: SavedWhen): number => b.placement - a.placement || b.at - a.at;

export const savedWhen = ({
  placement = 1,
  modified_at,
}: {
  placement?: number | undefined;
  modified_at: string;
}): SavedWhen => ({
  placement,
  at: Date.parse(modified_at),
});

/** Without any: older than all others. */
export const newestOf = (some: readonly SavedWhen[]): SavedWhen =>
  some.reduce((newest, one) => (newestFirst(one, newest) < 0 ? one : newest), { placement: 0, at: 0 });
