// How many control planes a test file may start: one, which its tests share, with jobs of their own. Every harness that
// starts `svc serve` calls countStart: Place, Workplace and startSvc.

let shared = 0;

/**
 * Throws an error at the second start of a test file. `own` is the reason why a place needs control planes of its own:
 * its tests end or kill them, start them in another environment, or need an empty home. Their starts are not counted.
 * Control planes that an SDK starts are not counted either: only tests of the SDKs have them.
 */
export function countStart(own: string | null): void {
  if (own !== null) return;
  shared += 1;
  if (shared > 1)
    throw new Error(
      'This test file starts a second control plane. Let its tests share one, with jobs of their own, or say why it needs another: Place.own("it is killed"), Workplace.own("it is killed").',
    );
}
