// Recognises a container runtime's message that a machine cannot start, and whether another host would do better. Seen:
// messages of Docker, containerd and the NVIDIA container toolkit in `status_msg` of market and in pod logs of podhost,
// 2024 to November 2026.

import { oneLine } from "../domain/terminal-text.ts";
import { neverReached, type MachineHandle } from "./provider.ts";

export interface BootVerdict {
  /** The provider's own message, one line. */
  why: string;
  /** The fault is this host's: the same order may start on another one. */
  elsewhere: boolean;
}

/** The verdict in the form of a machine's status. With a handle: a machine that was ever reached is not replaced. */
export const faultOf = ({ elsewhere }: BootVerdict, handle?: MachineHandle): { elsewhere?: true } | { image: true } =>
  !elsewhere ? { image: true } : handle ? neverReached(handle) : { elsewhere: true };

const CHARACTERS_MAX = 400;

/** The image cannot start anywhere: it does not exist, may not be read, or is for another processor. */
const NOWHERE =
  /manifest (for .{0,200} )?(unknown|not found)|no such (tag|image)|tag .{0,200} (not found|does not exist)|pull access denied|repository does not exist|requested access to the resource is denied|authentication required|unauthorized|invalid reference format|no matching manifest|exec format error|executable file not found|exec: "[^"]{1,200}": (stat [^:]{1,200}: )?(no such file or directory|permission denied)|no basic auth credentials|image operating system .{1,40} cannot be used|failed to resolve reference .{0,300}: not found/i;

/** This host cannot start it. */
const HERE =
  /unsatisfied condition: (cuda|driver|brand)|requirement error|cuda_version_mismatch|cuda driver version is insufficient|nvidia-container-cli|could not select device driver|OCI runtime create failed|failed to create (shim|task|containerd)|no space left on device|toomanyrequests|pull rate limit|image_pull_error|ErrImagePull|ImagePullBackOff|back-off pulling image|layer verification failed|failed to resolve reference|failed to (pull|register) (image|layer)|container (was )?refused/i;

/** The first line that says that the machine cannot start; null if there is none. */
export function bootVerdict(words: string): BootVerdict | null {
  for (const line of words.split(/[\r\n]+/)) {
    const nowhere = NOWHERE.test(line);
    if (!nowhere && !HERE.test(line)) continue;
    return { why: oneLine(line, CHARACTERS_MAX), elsewhere: !nowhere };
  }
  return null;
}
