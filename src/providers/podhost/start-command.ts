// The first command of a pod, and the script that ends it from inside.

import { ACCEPTED_TRIES, guardDir, guardScript, type GuardedMachine } from "../guard.ts";

/** The variables of its first process; the start command reads the first one. */
export function podEnvironment(name: string, publicKey: string): Record<string, string> {
  return {
    PUBLIC_KEY: publicKey,
    SSH_PUBLIC_KEY: publicKey,
    SVC_MACHINE: name,
    // Images that run as another user: sshd and the guard need root.
    RUNPOD_POD_USER: "0",
  };
}

/**
 * Starts the guard, then the image's own start, else its own sshd. Never returns: a container whose command ends is
 * restarted again and again. Contains no secret; base64, because nested quotes do not survive the transport.
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

/** The start of sshd for images without a start script of their own. Keys go into a separate file, next to those of the image. */
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
 * Shell text for `Provider.selfEnd`. The pod host gives each pod a key for itself. The script first tries to end the
 * pod; if that key may not, stopping at least ends the price of the GPUs. It uses whichever API still answers.
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
  const names = ways.map((_, n) => `way${n}`);
  return `SVC_KEY=$(svc_env RUNPOD_API_KEY)
pod=$(svc_env RUNPOD_POD_ID)
case $pod in '' | *[!A-Za-z0-9_-]*) echo "the pod's own id is not known"; return 1 ;; esac
[ -n "$SVC_KEY" ] || { echo "the pod's own key is not known"; return 1; }
${ways.map((way, n) => `way${n}() { ${way}; }`).join("\n")}
if [ "\${tries:-1}" -gt ${ACCEPTED_TRIES} ]; then ${names.join("; ")}; else ${names.join(" || ")}; fi`;
}
