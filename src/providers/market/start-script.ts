// The start script of a rented machine. It runs at every start of its container, also after a reboot, so it is
// idempotent.

import { gzipSync } from "node:zlib";
import { quoted } from "../../domain/shell-words.ts";
import { SvcError } from "../../errors/index.ts";
import { ACCEPTED_TRIES } from "../guard.ts";

/**
 * The provider's maximum length of a start script (source: its OpenAPI document, `onstart`, November 2026; older texts
 * say 4096).
 */
export const START_SCRIPT_MAX = 4_048;
/** Reserve below the limit: whether the provider counts characters or their JSON escapes is not documented. */
const MARGIN = 148;

/** Attempts to destroy the machine before it is stopped. */
const DESTROY_TRIES = 2;

/**
 * Ends the machine through the provider's API with the key that the provider put into it, which opens only this
 * machine. See `Provider.selfEnd`. If destroying is refused again and again, stopping at least ends the price of the
 * GPUs; it comes later, because a stopped machine cannot destroy itself any more.
 */
export function selfEndText(baseUrl: string): string {
  return `id=$(svc_env CONTAINER_ID)
SVC_KEY=$(svc_env CONTAINER_API_KEY)
case $id in '' | *[!0-9]*) echo 'no CONTAINER_ID' >&2; exit 1 ;; esac
api=${quoted(`${baseUrl}/api`)}
ask() {
  for v in v0 v1; do
    said=$(svc_call $1 "$api/$v/instances/$id/" "$2") || { echo "$said"; continue; }
    echo "$said"
    case $said in *'"success":'*false*) ;; *) return 0 ;; esac
  done
  return 1
}
{ ask DELETE '{}' && [ "\${tries:-1}" -le ${ACCEPTED_TRIES} ]; } ||
  { [ "\${tries:-1}" -gt "\${patience:-${DESTROY_TRIES}}" ] && ask PUT '{"state":"stopped"}'; }`;
}

/**
 * Installs the guard, our key, and the image's own variables for SSH sessions, which otherwise lack them. Only if the
 * first process is the rented container's: a machine that shares its file system with others stays unchanged. The guard's comments and
 * indentation stay here, because its length is limited.
 */
export function startScript(options: { guard: string; publicKey: string }): string {
  const key = quoted(options.publicKey.trim());
  const text = `${options.guard.trimEnd().replace(/^ *(# .*\n)?/gm, "")}
if tr '\\0' '\\n' 2>/dev/null </proc/1/environ | grep -q '^CONTAINER_ID='; then
  touch ~/.no_auto_tmux
  mkdir -p ~/.ssh && chmod 700 ~/.ssh
  grep -qxF ${key} ~/.ssh/authorized_keys 2>/dev/null || printf '%s\\n' ${key} >>~/.ssh/authorized_keys
  chmod 600 ~/.ssh/authorized_keys
  grep -q '^CONTAINER_ID=' /etc/environment 2>/dev/null ||
    env | grep -E '^[A-Za-z_][A-Za-z0-9_]*=' | grep -vE '^(CONTAINER_API_KEY|HOME|PWD|OLDPWD|SHLVL|TERM|_)=' >>/etc/environment
fi
`;
  const script = packed(text);
  if (Buffer.byteLength(script) <= START_SCRIPT_MAX - MARGIN) return script;
  throw new SvcError("provider_refused", {
    provider: "market",
    why: `the start script of the machine would have ${script.length} characters, and svc sends at most ${START_SCRIPT_MAX - MARGIN} of the ${START_SCRIPT_MAX} that the provider takes; use a shorter SSH key, such as one of ed25519`,
  });
}

/** Every script is packed, so that this path is always in use, and not only with long keys. */
function packed(text: string): string {
  const data = gzipSync(text, { level: 9 }).toString("base64");
  return `f=$(mktemp) && echo ${data} | base64 -d | gunzip >"$f" && sh "$f"; rm -f "$f"\n`;
}
