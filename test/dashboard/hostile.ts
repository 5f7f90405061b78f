/**
 * Texts that would act as markup, as script, or as a name that reads backwards if the page did not show them as plain
 * text.
 */
export const HOSTILE = `<img src=x onerror="globalThis.hacked=1"><script>globalThis.hacked=1</script>\u202Egnp.exe`;
