// The parts of the marketplace's answers that svc reads. Everything except an id may be missing or have another type,
// and is checked where it is used, because one odd row must not make a whole listing unreadable.

import { z } from "zod";
import type { HttpAnswer } from "../http.ts";

const anything = z.unknown();

export const OfferRow = z.object({
  id: anything,
  ask_contract_id: anything,
  machine_id: anything,
  gpu_name: anything,
  num_gpus: anything,
  gpu_ram: anything,
  dph_base: anything,
  dph_total: anything,
  min_bid: anything,
  storage_cost: anything,
  inet_up_cost: anything,
  inet_down_cost: anything,
  disk_space: anything,
  direct_port_count: anything,
  reliability: anything,
  reliability2: anything,
  verification: anything,
  verified: anything,
  rentable: anything,
  rented: anything,
  external: anything,
  is_bid: anything,
  duration: anything,
  geolocation: anything,
  cuda_max_good: anything,
});
export type OfferRow = Partial<z.infer<typeof OfferRow>>;

/** One machine, in a listing and on its own alike. */
export const InstanceRow = z.object({
  id: anything,
  label: anything,
  machine_id: anything,
  actual_status: anything,
  intended_status: anything,
  cur_state: anything,
  next_state: anything,
  status_msg: anything,
  image_runtype: anything,
  is_bid: anything,
  ssh_host: anything,
  ssh_port: anything,
  public_ipaddr: anything,
  ports: anything,
  dph_total: anything,
  end_date: anything,
});
export type InstanceRow = Partial<z.infer<typeof InstanceRow>>;

export const Offers = z.object({ offers: z.array(OfferRow.partial()) });

export const GpuNames = z.object({ gpu_names: z.array(z.string().max(100)).max(20_000) });

export const ListPage = z.object({
  instances: z.array(InstanceRow.partial().catch({})),
  next_token: anything.optional(),
  total_instances: anything.optional(),
});

/** One object under a plural name, or null; a list in older answers. */
export const OneInstance = z.object({
  instances: z.union([InstanceRow.partial(), z.array(InstanceRow.partial()), z.null()]),
});

export const User = z.object({
  id: anything,
  email: anything,
  username: anything,
  credit: anything,
});

/** The body as an object; null for anything else, pages for people included. */
export function objectOf(answer: HttpAnswer): Record<string, unknown> | null {
  if (answer.isHtml) return null;
  const body = answer.json();
  return typeof body === "object" && body !== null && !Array.isArray(body) ? (body as Record<string, unknown>) : null;
}

export const textOf = (value: unknown): string => (typeof value === "string" ? value.trim() : "");
/** A finite number, also if it was written as text; null for anything else. */
export function numberOf(value: unknown): number | null {
  const number = typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value.trim()) ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : null;
}
