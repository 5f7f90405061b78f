// For the SDKs: a control plane that one of them started lives as long as any of them holds it. See ../holds.ts.

import { z } from "zod";
import { ok, route } from "../route.ts";

const Hold = z
  .object({
    hold: z.string().meta({ description: "What to release it by." }),
    ends_with_holders: z.boolean().meta({ description: "Whether the control plane ends when nobody holds it." }),
  })
  .meta({ id: "Hold" });

const Released = z
  .object({
    ending: z.boolean().meta({ description: "Whether the control plane ends now." }),
    holders: z.int().meta({ description: "How many others hold it." }),
  })
  .meta({ id: "Released" });

export const HOLD_ROUTES = [
  route({
    method: "GET",
    path: "/v1/hold",
    id: "hold",
    summary: "Keep the control plane for as long as the answer stays open",
    description:
      "One line of JSON, and then nothing more until the control plane has ended. Closing the connection, however that comes about, " +
      "lets go. Where `ends_with_holders` is false the control plane was started by its owner and outlives every hold.",
    responses: {
      200: {
        description: "Held: a line of this, and one more at the end.",
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
    summary: "Let go of a hold, and hear whether that was the last one",
    description:
      "`starter` says that the caller is also the one that started the control plane. Repeating it changes nothing.",
    body: z.strictObject({ starter: z.boolean().default(false) }),
    responses: { 200: { description: "Released.", schema: Released } },
    errors: ["invalid_request", "invalid_json", "unsupported_media_type"],
    handle: (call) => ok(call.holds.release(call.params["id"] ?? "", call.body.starter)),
  }),
];
