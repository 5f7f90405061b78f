// Handles S3's redirect for a bucket in another region. Only the region is taken from that answer: the library builds
// the region's address itself, and every request is signed again. An answer cannot send files or signatures to another
// host.

import type { S3Client } from "@aws-sdk/client-s3";
import { plainWords } from "./object-store.ts";

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 307, 308]);
/** The status for a request that was signed for the wrong region. */
const WRONG_REGION = 400;
const REGION = /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/;
/** The vendor's address of a region, with or without the bucket before it. */
const VENDOR_HOST = /(?:^|\.)s3[.-](?:dualstack\.)?([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$/;

interface Failed {
  Region?: unknown;
  $metadata?: { httpStatusCode?: number };
  $response?: { headers?: Record<string, string | undefined> };
}

/**
 * Retries a request that is refused for its region once in the region that the answer names; later requests use that
 * region at once.
 *
 * @param place the region of all requests of this client.
 * @param vendors whether the client uses the vendor's own address.
 */
export function followRegion(client: S3Client, place: { region: string }, vendors: boolean): void {
  client.middlewareStack.add(
    (next) => async (args) => {
      const before = place.region;
      try {
        return await next(args);
      } catch (e) {
        const named = regionIn(e as Failed, vendors);
        if (named === null || named === before) throw e;
        place.region = named;
        return next(args);
      }
    },
    { step: "initialize", priority: "high", name: "followRegion" },
  );
}

function regionIn(e: Failed, vendors: boolean): string | null {
  const status = e.$metadata?.httpStatusCode ?? 0;
  if (status !== WRONG_REGION && !REDIRECTS.has(status)) return null;
  const said = e.$response?.headers?.["x-amz-bucket-region"] ?? e.Region ?? (vendors ? vendorRegion(e) : null);
  return typeof said === "string" && REGION.test(said) ? said : null;
}

function vendorRegion(e: Failed): string | null {
  const to = locationOf(e);
  return to?.protocol === "https:" ? (VENDOR_HOST.exec(to.hostname)?.[1] ?? null) : null;
}

function locationOf(e: unknown): URL | null {
  const location = (e as Failed).$response?.headers?.["location"] ?? "";
  return URL.canParse(location) ? new URL(location) : null;
}

/** Advice on a redirect that was not followed, as text. */
export function whereTo(e: unknown): string {
  const to = locationOf(e);
  const where = to === null ? "another address" : plainWords(to.origin, []);
  return `it redirects to ${where}. svc sends files only to the endpoint that you named; if the bucket is there, set that address as the sink's endpoint and the bucket's region as its region`;
}
