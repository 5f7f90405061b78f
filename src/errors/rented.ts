// What can go wrong between us, a provider and a machine that costs money. What is said of renting is said of one order: another node of
// the same run may hold a machine, which is then given back.

import { entry } from "./entry.ts";
import { hourly } from "./dollars.ts";

const BY_THIS_ORDER = "Nothing was rented by this order.";
const paidFor = (held: number): string =>
  held === 1 ? "the machine of one other node is paid for" : `the machines of ${held} other nodes are paid for`;

const because = (why: string | undefined): string => (why ? ` (${why})` : "");

export const RENTED = {
  provider_error: entry<{ provider: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "backoff",
    message: (d) => `${d.provider} answered with an error: ${d.why}.`,
    hint: "While a run is not over, it is asked again by itself. `svc jobs` says what may still cost money.",
  }),
  provider_refused: entry<{ provider: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) => `${d.provider} refused: ${d.why}.`,
    hint: "No machine was rented by this call. Change the request or choose another provider.",
  }),
  outcome_unknown: entry<{ provider: string; what: string }>({
    status: 502,
    exit: 1,
    retry: "unknown",
    message: (d) =>
      `The answer of ${d.provider} to "${d.what}" was lost; it may or may not have taken effect and may cost money.`,
    hint: "The control plane looks it up until it is certain, and terminates what it finds.",
  }),
  price_cap_exceeded: entry<{ offered: number; cap: number; outcome: "Nothing was rented" | "It is given back" }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => {
      const prices = `costs ${hourly(d.offered, d.cap)}; the cap is ${hourly(d.cap)}.`;
      return d.outcome === "It is given back"
        ? `The machine ${prices} It is given back.`
        : `The cheapest offer ${prices} ${BY_THIS_ORDER}`;
    },
    hint: "Raise price_cap, ask for fewer GPUs or another model, or try another provider; prices change by the hour.",
  }),
  price_unknown: entry<{ provider: string; cap: number }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) =>
      `${d.provider} does not say what the machine costs, so the cap of ${hourly(d.cap)} cannot be held. It is given back.`,
    hint: "Try again, leave price_cap out, or choose another provider.",
  }),
  /** `held`: machines of the run's other nodes, which are paid for while this node has none. */
  no_offer: entry<{ provider: string; gpus: string; node?: number; held?: number; why?: string }>({
    status: 409,
    exit: 1,
    retry: "backoff",
    message: (d) =>
      d.held
        ? `${d.provider} has no machine with ${d.gpus} for node ${d.node} right now${because(d.why)}; ${paidFor(d.held)} meanwhile.`
        : `${d.provider} has no machine with ${d.gpus} right now${because(d.why)}. ${BY_THIS_ORDER}`,
    hint: "A run tries again for about a minute before it gives up. Another GPU, region or provider may be quicker; `svc gpus` lists names that are understood.",
  }),
  gang_incomplete: entry<{ provider: string; gpus: string; node: number; nodes: number; held: number; why?: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) =>
      `${d.provider} had no machine with ${d.gpus} for node ${d.node} of ${d.nodes} for a minute${because(d.why)}, while ${paidFor(d.held)}. What was rented for this run is given back.`,
    hint: "Ask for fewer nodes, or for another GPU, region or provider; or submit the run again later.",
  }),
  offer_taken: entry<{ provider: string; offer: string; why: string }>({
    status: 409,
    exit: 1,
    retry: "backoff",
    message: (d) => `${d.provider} could not give the offer ${d.offer}: ${d.why}. ${BY_THIS_ORDER}`,
    hint: "The next offer is tried by itself.",
  }),
  no_funds: entry<{ provider: string; why: string }>({
    status: 402,
    exit: 4,
    retry: "never",
    message: (d) => `The account at ${d.provider} has not enough credit: ${d.why}. ${BY_THIS_ORDER}`,
    hint: "Add funds at the provider, then submit the run again.",
  }),
  no_quota: entry<{ provider: string; why: string }>({
    status: 409,
    exit: 4,
    retry: "never",
    message: (d) => `The account at ${d.provider} may not rent this: ${d.why}. ${BY_THIS_ORDER}`,
    hint: "Ask the provider to raise the quota or limit, or choose another region, GPU or provider.",
  }),
  provider_unreachable: entry<{ provider: string; why: string }>({
    status: 502,
    exit: 5,
    retry: "backoff",
    message: (d) => `${d.provider} cannot be reached: ${d.why}.`,
    hint: "Check the network of this computer. For a run it is tried again by itself, and `svc jobs` says what may still cost money.",
  }),
  credential_missing: entry<{ provider: string; missing: string }>({
    status: 400,
    exit: 4,
    retry: "never",
    message: (d) => `There is no usable credential for ${d.provider}. Missing or wrong: ${d.missing}.`,
    hint: (d) =>
      `Set it at Connect in the dashboard, by \`svc credentials set ${d.provider}\`, or in the environment that the control plane is started in; \`svc docs credentials\` lists the names. No machine was rented by this call.`,
  }),
  credential_refused: entry<{ provider: string; why: string }>({
    status: 400,
    exit: 4,
    retry: "never",
    message: (d) => `${d.provider} does not accept the credential: ${d.why}.`,
    hint: "Make a new key at the provider, with the right to make and end machines. No machine was rented by this call.",
  }),
  ssh_key_unusable: entry<{ path: string; why: string }>({
    status: 400,
    exit: 4,
    retry: "never",
    message: (d) => `The SSH key ${d.path} cannot be used: ${d.why}.`,
    hint: "Name another key as ssh_key_path, load it into an SSH agent, or leave it out: then svc makes a key of its own.",
  }),
  /** `closed`: something answered at its address, and turned us away before anybody was logged in. */
  ssh_unreachable: entry<{ machine: string; why: string; closed?: boolean }>({
    status: 502,
    exit: 1,
    retry: "backoff",
    message: (d) => `The machine ${d.machine} cannot be reached over SSH: ${d.why}.`,
    hint: "The connection is tried again, and the provider of a rented machine is asked whether it still exists. The run itself goes on meanwhile.",
  }),
  ssh_refused: entry<{ machine: string; user: string; why: string }>({
    status: 502,
    exit: 4,
    retry: "backoff",
    message: (d) => `The machine ${d.machine} does not let ${d.user} in: ${d.why}.`,
    hint: "The public key may not have reached it: some providers want it registered on the account first; on cloudvm OS Login must be off.",
  }),
  host_key_changed: entry<{ machine: string }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) =>
      `Something else than the machine ${d.machine} answered in its place: its host key is not the one that was pinned. Nothing was sent to it.`,
    hint: "A rented machine is given back by the provider's API; of a notebook, set the address that its cell prints now. Submit the run again; if it happens again, do not trust the network in between.",
  }),
  machine_unfit: entry<{ machine: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) => `The machine ${d.machine} cannot serve the run: ${d.why}. It is given back.`,
    hint: "Choose another image, GPU or provider; `svc timeline` shows what the machine said of itself.",
  }),
  machine_disk_full: entry<{ machine: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) => `The disk of the machine ${d.machine} is full: ${d.why}. It is given back.`,
    hint: "Ask for a larger one with disk_gb, write less, or keep fewer checkpoints. What had come home by then is kept.",
  }),
  runtime_gone: entry<{ machine: string; why: string; minutes: number }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) =>
      `The runtime behind ${d.machine} is closed: for ${d.minutes} minutes its address has answered and let nobody through (${d.why}). svc lets go of it.`,
    hint: "Open the notebook, run the bootstrap cell again, set the address that it prints, and submit the run again. What had come home by then is kept; svc is billed nothing.",
  }),
  machine_broken: entry<{ provider: string; machine: string; why: string; elsewhere?: true }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) => `The machine ${d.machine} of ${d.provider} does not work (any more): ${d.why}. It is given back.`,
    hint: "What had come home by then is kept: a new run with resume_from goes on from its last complete checkpoint.",
  }),
  sync_failed: entry<{ machine: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "backoff",
    message: (d) => `What the run needs could not be brought to ${d.machine}: ${d.why}.`,
    hint: "It is tried again by itself; what had arrived is not sent twice.",
  }),
  machine_lost: entry<{ provider: string; machine: string; why?: string | undefined }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) =>
      `${d.provider} says that the machine ${d.machine} does not exist any more: ${d.why ?? "it was preempted or deleted"}. It costs nothing now.`,
    hint: "What had come home by then is kept. Start again, or continue from the last checkpoint.",
  }),
} as const;
