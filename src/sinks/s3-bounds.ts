// No store's answer may take the memory of the control plane, whatever it answers with: the library collects a body whole.

import { pipeline, Readable, Transform } from "node:stream";
import type { S3Client } from "@aws-sdk/client-s3";

/** A page of unfinished uploads, the longest answer that is meant to be, has a thousand keys of up to 1 KiB, three characters each. */
const ANSWER_BYTES_MAX = 8 * 1024 * 1024;
const TOO_LONG = "its answer is longer than 8 MiB";

/** From here on, an answer that is too long is an error. An object that is read back comes as a stream, which has any length. */
export function boundAnswers(client: S3Client): void {
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const result = await next(args);
      const answer = result.response as { statusCode?: number; body?: unknown } | undefined;
      const isContent = context.commandName === "GetObjectCommand" && (answer?.statusCode ?? 0) < 300;
      if (answer?.body instanceof Readable && !isContent) answer.body = bounded(answer.body);
      return result;
    },
    // Nearest to the wire: before the library reads it.
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
  // Whoever reads it hears of a failure there.
  return pipeline(body, counted, () => undefined);
}
