// What runs first in a pod, and what ends it from the inside.

import { guardDir, guardScript, type GuardedMachine } from "../guard.ts";

/** The variables of its first process, of which the start command reads the first. */
export function podEnvironment(name: string, publicKey: string): Record<string, string> {
  return {
    PUBLIC_KEY: publicKey,
    SSH_PUBLIC_KEY: publicKey,
    SVC_MACHINE: name,
    // Images that run as somebody else: sshd and the guard want root.
    RUNPOD_POD_USER: "0",
  };
}

/**
 * Starts the guard, then what the image would have started, else an sshd of its own. Never returns: a container whose command
 * ends is started again and again. Holds no secret; base64, since nested quotes do not survive the way to the machine.
 */
export function startCommand(guard: GuardedMachine): string {
  const script = `#!/bin/sh
sh <<'SVC_START'
${guardScript(guard)}
SVC_START
[ ! -x /start.sh ] || exec /start.sh
dir=${guardDir(guard.name)}
${OWN_SSHD}`;
  return `sh -c 'echo ${Buffer.from(script).toString("base64")} | base64 -d >/tmp/svc-start.sh; exec sh /tmp/svc-start.sh'`;
}

/** For images that bring no start of their own. Keys go into a file of ours, beside those of the image. */
const OWN_SSHD = `export PATH="$PATH:/usr/sbin:/sbin"
n=0
until command -v sshd >/dev/null 2>&1; do
  n=$((n + 1))
  export DEBIAN_FRONTEND=noninteractive
  if command -v apt-get >/dev/null 2>&1; then
    apt-get update && apt-get install -y --no-install-recommends openssh-server ca-certificates curl rsync
  elif command -v apk >/dev/null 2>&1; then
    apk add --no-cache openssh-server ca-certificates curl rsync
  elif command -v dnf >/dev/null 2>&1; then
    dnf install -y openssh-server ca-certificates curl rsync
  fi
  command -v sshd >/dev/null 2>&1 || sleep $((n < 10 ? 10 : 60))
done
mkdir -p "$dir" /run/sshd
printf '%s\\n' "$PUBLIC_KEY" >"$dir/authorized_keys"
chmod 600 "$dir/authorized_keys"
ssh-keygen -A
while :; do
  "$(command -v sshd)" -D -e -o StrictModes=no -o PasswordAuthentication=no -o PermitRootLogin=prohibit-password \\
    -o AuthorizedKeysFile="$dir/authorized_keys .ssh/authorized_keys"
  sleep 5
done
`;

const terminate = `mutation T($input: PodTerminateInput!) { podTerminate(input: $input) }`;
const stop = `mutation S($input: PodStopInput!) { podStop(input: $input) { id } }`;

/**
 * Shell text for `Provider.selfEnd`. The key is the one that the pod host gives each pod for itself. Ending comes first; where
 * that key may not, stopping at least ends the price of the GPUs. Of both, whatever API still answers.
 */
export function selfEndScript(baseUrl: string, restOnly: boolean): string {
  const base = baseUrl.replaceAll("'", "%27");
  const graphql = (document: string) =>
    `answer=$(svc_call POST '${base}/graphql' '{"query":"${document}","variables":{"input":{"podId":"'"$pod"'"}}}') &&
  case $answer in *'"errors"'*) echo "$answer"; false ;; esac`;
  const ways = [
    ...(restOnly ? [] : [graphql(terminate)]),
    `svc_call DELETE '${base}/v2/pods/'"$pod" ''`,
    ...(restOnly ? [] : [graphql(stop)]),
    `svc_call POST '${base}/v2/pods/'"$pod"/action '{"action":"stop"}'`,
  ];
  return `SVC_KEY=$(svc_env RUNPOD_API_KEY)
pod=$(svc_env RUNPOD_POD_ID)
case $pod in '' | *[!A-Za-z0-9_-]*) echo "the pod's own id is not known"; return 1 ;; esac
[ -n "$SVC_KEY" ] || { echo "the pod's own key is not known"; return 1; }
${ways.map((way) => `{ ${way}; }`).join(" ||\n")}`;
}
