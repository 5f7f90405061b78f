// Answers that public/early.js asked for before this program was loaded.
//
// E1. Each is used at most once, and only until the live connection opens: then everything shown is read again, so that
//     no change between the early answer and the connection is missed.

type Answers = Record<string, Promise<Response>>;

let left: Answers = (globalThis as { svcEarly?: Answers }).svcEarly ?? {};
let used = (): void => undefined;

/** The page draws what it has before it connects. */
const DRAWN_MS = 50;

/** The answer to this question, if it was asked early. */
export function takeEarly(path: string): Promise<Response> | null {
  const { [path]: answer, ...others } = left;
  if (!answer) return null;
  left = others;
  if (Object.keys(left).length === 0) void answer.catch(() => undefined).then(() => setTimeout(() => used(), DRAWN_MS));
  return answer;
}

/** E1. */
export const forgetEarly = (): void => void (left = {});

/** Resolves soon after the last early answer was used, at the latest after so long. */
export function earlyUsed(maxMs: number): Promise<void> {
  if (Object.keys(left).length === 0) return Promise.resolve();
  return new Promise((resolve) => {
    used = resolve;
    setTimeout(resolve, maxMs);
  });
}
