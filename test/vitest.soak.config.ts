import { defineConfig } from "vitest/config";
import slow from "./vitest.slow.config.ts";

/** `npm run test:soak`: longer versions of quick and slow tests, outside CI. */
export default defineConfig({ test: { ...slow.test, include: ["test/**/*.soak.test.ts"] } });
