/** Words between backquotes are shown as code. */
export const withCode = (text: string) =>
  text.split("`").map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part));
