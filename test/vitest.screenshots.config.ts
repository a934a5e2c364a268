import { defineConfig } from "vitest/config";
import slow from "./vitest.slow.config.ts";

/** `npm run screenshots`: every page of the console in both themes and widths, into `.screenshots/`. */
export default defineConfig({
  test: { ...slow.test, include: ["test/console/screenshots.ts"] },
});
