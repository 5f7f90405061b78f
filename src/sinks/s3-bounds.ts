// Keeps a store's answer from filling the memory of the control plane: the library collects a body whole.

import { pipeline, Readable, Transform } from "node:stream";
import type { S3Client } from "@aws-sdk/client-s3";

/**
 * The longest legitimate answer, a page of unfinished uploads, has a thousand keys of up to 1 KiB, three characters
 * each.
 */
const ANSWER_BYTES_MAX = 8 * 1024 * 1024;
const TOO_LONG = "its answer is longer than 8 MiB";

/** Makes an overlong answer an error. An object that is read back is a stream and may have any length. */
export function boundAnswers(client: S3Client): void {
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const result = await next(args);
      const answer = result.response as { statusCode?: number; body?: unknown } | undefined;
      const isContent = context.commandName === "GetObjectCommand" && (answer?.statusCode ?? 0) < 300;
      if (answer?.body instanceof Readable && !isContent) answer.body = bounded(answer.body);
      return result;
    },
    // Closest to the wire: before the library reads the answer.
    { step: "deserialize", priority: "low", name: "boundAnswers" },
  );
}

function bounded(body: Readable): Readable {
  let bytes = 0;
  const counted = new Transform({
    transform(part: Buffer, _, done) {
      bytes += part.length;
      if (bytes > ANSWER_BYTES_MAX) done(new Error(TOO_LONG));
      else done(null, part);
    },
  });
  // The stream's reader receives its errors.
  return pipeline(body, counted, () => undefined);
}
