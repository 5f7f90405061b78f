/** The most files in a listing of a checkpoint directory. The agent has the same bound (runner/svc_agent/checkpoints.py). */
export const CHECKPOINT_FILES_MAX = 100_000;
