import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

export default defineConfig({
  // Relative, so that the page works behind a proxy's path too.
  base: "./",
  resolve: {
    alias: { "groundline-client": fileURLToPath(new URL("../clients/typescript/src/client.js", import.meta.url)) },
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2023",
    assetsDir: "console",
    // A data: address in a style sheet would need a policy of its own.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "console/licences.md" },
  },
});
