/** `KEY=VALUE`: the key, and the value, which may contain further `=`; null without one. */
export function keyAndValue(word: string): [key: string, value: string | null] {
  const at = word.indexOf("=");
  return at < 0 ? [word, null] : [word.slice(0, at), word.slice(at + 1)];
}
