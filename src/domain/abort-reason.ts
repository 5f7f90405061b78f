/** Why a signal was aborted. Everything in svc that aborts gives an error. */
export const abortReason = (signal: AbortSignal): Error => signal.reason as Error;
