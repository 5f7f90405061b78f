// Checks commit messages: an imperative subject of at most 72 characters, and a body that says why.

const SUBJECT_MAX = 72;
/** Imperatives that look like a past tense, a participle or a third person. */
const IMPERATIVES = new Set([
  "Bring",
  "Embed",
  "Feed",
  "Focus",
  "Need",
  "Ping",
  "Seed",
  "Shed",
  "Shred",
  "Speed",
  "Spring",
  "String",
  "Swing",
  "Bus",
]);

/** The fault of a message, in a few words; null if it has none. */
export function faultOf(message: string): string | null {
  const [subject = "", second = "", ...rest] = message.trimEnd().split("\n");
  const first = /^[\w'-]+/.exec(subject)?.[0] ?? "";
  if (subject.length > SUBJECT_MAX) return `the subject has ${subject.length} characters, ${SUBJECT_MAX} are allowed`;
  if (!/^[A-Z]/.test(subject)) return "the subject does not begin with a capital letter";
  if (subject.endsWith(".")) return "the subject ends with a period";
  if (!IMPERATIVES.has(first) && /(ed|ing|[^s]s)$/.test(first))
    return `the subject begins with "${first}"; say what the commit does as an order, as in "Follow every page of a list"`;
  if (second !== "") return "no blank line follows the subject";
  if (rest.join("").trim() === "") return "there is no body that says why";
  return null;
}
