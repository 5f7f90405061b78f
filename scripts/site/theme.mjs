// The default theme with the fonts of the reader's system: nothing is fetched, and no font has to be shipped.
export { default } from "vitepress/theme-without-fonts";
