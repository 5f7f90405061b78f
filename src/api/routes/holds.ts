// For the SDKs: a control plane that one of them started runs as long as any of them holds it. See ../holds.ts.

import { z } from "zod";
import { ok, route } from "../route.ts";

const Hold = z
  .object({
    hold: z.string().meta({ description: "Id that releases the hold." }),
    ends_with_holders: z
      .boolean()
      .meta({ description: "Whether the control plane ends when the last hold is released." }),
  })
  .meta({ id: "Hold" });

const Released = z
  .object({
    ending: z.boolean().meta({ description: "Whether the control plane is now shutting down." }),
    holders: z.int().meta({ description: "How many other holds there are." }),
  })
  .meta({ id: "Released" });

export const HOLD_ROUTES = [
  route({
    method: "GET",
    path: "/v1/hold",
    id: "hold",
    summary: "Hold the control plane while the response stays open",
    description:
      "Sends one line of JSON, then nothing more until the control plane has ended. Closing the connection in any way " +
      "releases the hold. If `ends_with_holders` is false, the control plane was started by its owner and outlives every hold.",
    responses: {
      200: {
        description: "One line when the hold begins, and one when it ends.",
        schema: Hold,
        contentType: "application/x-ndjson",
      },
    },
    errors: ["shutting_down"],
    handle(call) {
      const head = call.request.raw.method === "HEAD";
      const response = call.reply.raw;
      const hold = head ? "" : call.holds.take(response);
      call.reply.hijack();
      response.writeHead(200, { "content-type": "application/x-ndjson" });
      const line = { hold, ends_with_holders: call.holds.endsWithHolders };
      if (head) response.end();
      else response.write(`${JSON.stringify(line)}\n`);
      return null;
    },
  }),
  route({
    method: "POST",
    path: "/v1/hold/{id}/release",
    id: "releaseHold",
    summary: "Release a hold",
    description:
      "The response says whether that was the last hold. `starter` means that the caller also started the control plane. Idempotent.",
    body: z.strictObject({ starter: z.boolean().default(false) }),
    responses: { 200: { description: "Released.", schema: Released } },
    errors: ["invalid_request", "invalid_json", "unsupported_media_type"],
    handle: (call) => ok(call.holds.release(call.params["id"] ?? "", call.body.starter)),
  }),
];
