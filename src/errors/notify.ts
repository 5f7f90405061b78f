// Errors of notifications. None of them touches a run or a machine.

import { entry } from "./entry.ts";

const APART = "Runs and machines do not depend on it.";

export const NOTIFY = {
  notify_unknown: entry<{ name: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `There is no notification target named ${d.name}.`,
    hint: "`svc notify list` shows the targets of this home.",
  }),
  notify_read_only: entry<{ name: string }>({
    status: 409,
    exit: 2,
    retry: "never",
    message: (d) => `The target ${d.name} was set by configure(). Nothing was changed.`,
    hint: "Change it where configure() is called, or use another name.",
  }),
  notify_address: entry<{ host: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "backoff",
    message: (d) => `svc does not send messages to ${d.host}: ${d.why}. Nothing was sent.`,
    hint: `Correct the address, or set \`allow_private\` of the target if it is meant to be inside your network. ${APART}`,
  }),
  notify_secret: entry<{ target: string; why: string }>({
    status: 400,
    exit: 4,
    retry: "backoff",
    message: (d) => `The target ${d.target} cannot be used: ${d.why}. Nothing was sent.`,
    hint: `Set its secret again, on the Connect page or with \`svc notify add\`. ${APART}`,
  }),
  notify_refused: entry<{ target: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) => `The target ${d.target} refuses this message: ${d.why}. svc does not send it again.`,
    hint: `Check the target's settings and send a test. ${APART}`,
  }),
  notify_unreachable: entry<{ target: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "unknown",
    message: (d) => `The message did not reach the target ${d.target}: ${d.why}.`,
    hint: `svc sends its notifications again for a day; a test is sent once. ${APART}`,
  }),
} as const;
