// Errors between svc, a provider and a machine that costs money. Statements about renting concern one order: another
// node of the same run may hold a machine, which svc then releases.

import { entry } from "./entry.ts";
import { exactDollars, hourly } from "./dollars.ts";
import { RELEASED } from "./runs.ts";

const BY_THIS_ORDER = "This request rented nothing.";
const paidFor = (held: number): string =>
  held === 1 ? "the machine of one other node is billed" : `the machines of ${held} other nodes are billed`;

const because = (why: string | undefined): string => (why ? ` (${why})` : "");

export const RENTED = {
  provider_error: entry<{ provider: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "backoff",
    message: (d) => `${d.provider} answered with an error: ${d.why}.`,
    hint: "While a run is unfinished, svc retries by itself. `svc jobs` shows what may still cost money.",
  }),
  provider_refused: entry<{ provider: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) => `${d.provider} refused the request: ${d.why}.`,
    hint: "This request rented no machine. Change the run or choose another provider.",
  }),
  outcome_unknown: entry<{ provider: string; what: string }>({
    status: 502,
    exit: 1,
    retry: "unknown",
    message: (d) =>
      `The answer of ${d.provider} to "${d.what}" was lost; the request may have taken effect and may cost money.`,
    hint: "svc polls the provider until the outcome is certain, and terminates any machine that the request created.",
  }),
  still_listed: entry<{ provider: string; machine: string }>({
    status: 502,
    exit: 1,
    retry: "backoff",
    message: (d) =>
      `${d.provider} was asked to end ${d.machine}, but still lists it. The machine may cost money until ${d.provider} no longer lists it.`,
    hint: "The next sweep checks it again: `svc serve` runs one regularly, `svc reconcile` runs one now.",
  }),
  machine_not_found: entry<{ machine: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `The ledger of this home has no machine ${d.machine}.`,
    hint: "`svc reconcile --dry-run` and the page Machines list the machines that may cost money by their names.",
  }),
  machine_not_closable: entry<{ machine: string; why: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => `The order of the machine ${d.machine} stays open, and the machine may cost money: ${d.why}.`,
    hint: "Nothing was changed. svc continues to release the machine of an ended run until its provider confirms the end. If it still runs, end it in the provider's console.",
  }),
  price_cap_exceeded: entry<{ offered: number; cap: number; outcome: "Nothing was rented" | "svc releases it" }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => {
      const prices = `costs ${hourly(d.offered, d.cap)}; the cap is ${exactDollars(d.cap)}/h.`;
      return d.outcome === "svc releases it"
        ? `The machine ${prices} svc releases it.`
        : `The cheapest offer ${prices} ${BY_THIS_ORDER}`;
    },
    hint: "Raise price_cap, ask for fewer GPUs or another model, or try another provider; prices change every hour.",
  }),
  price_unknown: entry<{ provider: string; cap: number; outcome: "Nothing was rented" | "svc releases it" }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) =>
      `${d.provider} does not say what the machine costs, so svc cannot enforce the cap of ${exactDollars(d.cap)}/h. ${d.outcome === "svc releases it" ? "svc releases it." : BY_THIS_ORDER}`,
    hint: "Try again, leave price_cap out, or choose another provider.",
  }),
  /**
   * `held`: machines of the run's other nodes, which are paid for while this node has none. `tried`: each candidate with its reason, where
   * several were looked at for the time `waited`.
   */
  no_offer: entry<{
    provider: string;
    gpus: string;
    node?: number;
    held?: number;
    why?: string;
    tried?: string;
    waited?: string;
  }>({
    status: 409,
    exit: 1,
    retry: "backoff",
    message: (d) =>
      d.tried !== undefined
        ? `No candidate had a machine within ${d.waited}: ${d.tried}. Nothing is rented now.`
        : d.held
          ? `${d.provider} has no machine with ${d.gpus} for node ${d.node} right now${because(d.why)}; ${paidFor(d.held)} meanwhile.`
          : `${d.provider} has no machine with ${d.gpus} right now${because(d.why)}. ${BY_THIS_ORDER}`,
    hint: "A run retries for about a minute before it gives up, or for wait_for_capacity_minutes. Another GPU, region or provider may be available sooner; `svc gpus` lists the known names.",
  }),
  /** `from`: dollars per hour; no cheaper offer exists. Null if that is not known either. */
  offers_unknown: entry<{ provider: string; gpus: string; from: number | null }>({
    status: 503,
    exit: 1,
    retry: "backoff",
    message: (d) =>
      d.from === null
        ? `${d.provider} has not said yet whether it has a machine with ${d.gpus}. Nothing was rented.`
        : `${d.provider} shows its cheapest machines first, and none of them up to ${hourly(d.from)} has ${d.gpus}: svc is still searching for more expensive ones. Nothing was rented.`,
    hint: "Ask for the plan again in ten seconds to see all offers. A run waits for them by itself.",
  }),
  gang_incomplete: entry<{ provider: string; gpus: string; node: number; nodes: number; held: number; why?: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) =>
      `${d.provider} had no machine with ${d.gpus} for node ${d.node} of ${d.nodes} for a minute${because(d.why)}, while ${paidFor(d.held)}. svc releases every machine rented for this run.`,
    hint: "Ask for fewer nodes, or for another GPU, region or provider; or submit the run again later.",
  }),
  offer_taken: entry<{ provider: string; offer: string; why: string }>({
    status: 409,
    exit: 1,
    retry: "backoff",
    message: (d) => `${d.provider} could not rent out the offer ${d.offer}: ${d.why}. ${BY_THIS_ORDER}`,
    hint: "svc tries the next offer by itself.",
  }),
  no_funds: entry<{ provider: string; why: string }>({
    status: 402,
    exit: 4,
    retry: "never",
    message: (d) => `The account at ${d.provider} does not have enough credit: ${d.why}. ${BY_THIS_ORDER}`,
    hint: "Add funds at the provider, then submit the run again.",
  }),
  no_quota: entry<{ provider: string; why: string }>({
    status: 409,
    exit: 4,
    retry: "never",
    message: (d) => `The account at ${d.provider} is not allowed to rent this: ${d.why}. ${BY_THIS_ORDER}`,
    hint: "Ask the provider for a higher quota or limit, or choose another region, GPU or provider.",
  }),
  provider_unreachable: entry<{ provider: string; why: string }>({
    status: 502,
    exit: 5,
    retry: "backoff",
    message: (d) => `${d.provider} cannot be reached: ${d.why}.`,
    hint: "Check the network of this computer. Runs retry by themselves, and `svc jobs` shows what may still cost money.",
  }),
  credential_missing: entry<{ provider: string; missing: string }>({
    status: 400,
    exit: 4,
    retry: "never",
    message: (d) => `There is no usable credential for ${d.provider}. Missing or wrong: ${d.missing}.`,
    hint: (d) =>
      `Set it at Connect in the dashboard, by \`svc credentials set ${d.provider.includes(" ") ? "NAME" : d.provider}\`, or in the environment of the control plane; \`svc docs credentials\` lists the names. This request rented no machine.`,
  }),
  credential_refused: entry<{ provider: string; why: string }>({
    status: 400,
    exit: 4,
    retry: "never",
    message: (d) => `${d.provider} does not accept the credential: ${d.why}.`,
    hint: "Create a new API key with permission to create and delete machines. This request rented no machine.",
  }),
  account_unproven: entry<{ provider: string; machine: string; ordered: string; now: string; isKeyOnly: boolean }>({
    status: 409,
    exit: 4,
    retry: "never",
    message: (d) =>
      `svc cannot prove that the machine ${d.machine} is gone at ${d.provider}, and it may cost money: ` +
      (d.isKeyOnly
        ? `the key that is set now (${d.now}) is not the one that rented it (${d.ordered}), and ${d.provider} does not say whether both open one account.`
        : `the key that is set now opens another account (${d.now}) than the one that rented it (${d.ordered}).`),
    hint: (d) =>
      d.isKeyOnly
        ? `Set the earlier key again until svc has confirmed the end. If that key no longer exists, and the console of the account that rented the machine shows that it is gone, confirm it by \`svc reconcile --gone ${d.machine}\`.`
        : "Set a key of the account that rented the machine. svc then asks again, and releases it.",
  }),
  ssh_key_unusable: entry<{ path: string; why: string }>({
    status: 400,
    exit: 4,
    retry: "never",
    message: (d) => `The SSH key ${d.path} cannot be used: ${d.why}.`,
    hint: "Load the key into an SSH agent, set ssh_key_path to another key, or leave ssh_key_path out: svc then generates its own key. A new run rents nothing until then. A script that was started continues, its machine is billed, and svc connects again once the key that the machine accepts works. svc releases a machine whose script has not started when the time limit for connecting, syncing or installing ends.",
  }),
  /** `closed`: something answered at its address and refused before any login. */
  ssh_unreachable: entry<{ machine: string; why: string; closed?: boolean }>({
    status: 502,
    exit: 1,
    retry: "backoff",
    message: (d) => `The machine ${d.machine} cannot be reached over SSH: ${d.why}.`,
    hint: `svc retries the connection and asks the provider whether the machine still exists. A script that was started continues in the meantime, and the machine is billed. If no connection succeeds before the script starts, the run ends. ${RELEASED} Check the network of this computer, or choose another provider or region.`,
  }),
  ssh_refused: entry<{ machine: string; user: string; why: string }>({
    status: 502,
    exit: 4,
    retry: "backoff",
    message: (d) => `The machine ${d.machine} refuses SSH login for ${d.user}: ${d.why}.`,
    hint: `svc retries for four minutes; then the machine counts as unfit, and the run ends or continues on another one, as retry says. ${RELEASED} The public key may be missing on the machine: register it on the account at the provider first; on cloudvm, turn OS Login off.`,
  }),
  host_key_changed: entry<{ machine: string }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) =>
      `SSH host key mismatch: the server at the address of ${d.machine} is not the machine that svc connected to before. Nothing was sent to it.`,
    hint: "svc releases a rented machine through the provider's API; for a notebook, set the address that its cell prints now. Submit the run again; if it happens again, do not trust the network between you and the machine.",
  }),
  machine_unfit: entry<{ machine: string; why: string; image?: true }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) => `The machine ${d.machine} cannot be used for this run: ${d.why}. svc releases it.`,
    hint: "Choose another image, GPU or provider; `svc timeline` shows what the machine reported.",
  }),
  machine_disk_full: entry<{ machine: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) => `The disk of the machine ${d.machine} is full: ${d.why}. svc releases it.`,
    hint: "Ask for a larger disk with disk_gb, write less, or keep fewer checkpoints. Everything downloaded so far is kept.",
  }),
  runtime_gone: entry<{ machine: string; why: string; minutes: number }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) =>
      `The notebook runtime behind ${d.machine} appears to be shut down: its tunnel has refused logins for ${d.minutes} minutes (${d.why}). svc has released it.`,
    hint: "Open the notebook, run the bootstrap cell again, set the address that it prints, and submit the run again. Everything downloaded so far is kept; svc itself is not billed for a notebook.",
  }),
  machine_broken: entry<{ provider: string; machine: string; why: string; elsewhere?: true; image?: true }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) => `The machine ${d.machine} of ${d.provider} is not working: ${d.why}. svc releases it.`,
    hint: "Everything downloaded so far is kept: a new run with resume_from continues from the last complete checkpoint.",
  }),
  sync_failed: entry<{ machine: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "backoff",
    message: (d) => `The run's files could not be copied to ${d.machine}: ${d.why}.`,
    hint: `svc retries by itself and does not resend files that have arrived. If that does not help, the run ends. ${RELEASED} Check the network of this computer, or choose another provider or region.`,
  }),
  /** `gone`: the machine and its disk no longer exist, and nothing is billed. */
  machine_preempted: entry<{ provider: string; machine: string; why: string; gone?: true }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) =>
      `${d.provider} took the machine ${d.machine} back: ${d.why}. ${
        d.gone ? "It costs nothing now." : "svc releases it; until then its disk may still cost money."
      }`,
    hint: "Everything downloaded so far is kept. Let the run continue elsewhere with retry, submit a new one with resume_from, or set spot to never: a machine on demand is not taken back.",
  }),
  machine_lost: entry<{ provider: string; machine: string; why?: string | undefined }>({
    status: 502,
    exit: 1,
    retry: "never",
    message: (d) =>
      `${d.provider} reports that the machine ${d.machine} no longer exists: ${d.why ?? "it was preempted or deleted"}. It costs nothing now.`,
    hint: "Everything downloaded so far is kept. Start again, or continue from the last checkpoint with resume_from.",
  }),
} as const;
