/** Would be markup, script and a name that reads backwards, if it were not text. */
export const HOSTILE = `<img src=x onerror="globalThis.hacked=1"><script>globalThis.hacked=1</script>\u202Egnp.exe`;
