// Placement rules of a run that searches for machines and tries another one after a failure.

export const SEARCHING_RULES = {
  searches: true,
  retry_max: 2,
  retry_on: ["machine_unfit", "boot_failed"],
  recovers: true,
  max_preemptions: 10,
  falls_back: false,
};
