// Sends a request's body in pieces, so that a slow line shows progress. The signature already covers the whole body.

import type { S3Client } from "@aws-sdk/client-s3";
import { streamOf } from "./quiet.ts";

/** An additional option of `send`: called for each piece of the body. */
interface Watched {
  moved?: () => void;
}

export function sendInPieces({ config }: S3Client): void {
  const { requestHandler } = config;
  const handle = requestHandler.handle.bind(requestHandler);
  requestHandler.handle = (request, options) => {
    const { moved } = (options ?? {}) as Watched;
    const body: unknown = request.body;
    if (!(body instanceof Uint8Array) || body.length === 0 || moved === undefined) return handle(request, options);
    // A copy: a retry sends the body from its beginning again.
    const copy = request.clone();
    copy.body = streamOf(body, moved);
    return handle(copy, options);
  };
}
