const VITEST = ["node_modules/vitest/vitest.mjs", "run", "--config"];

/**
 * What can be run: `command` is what the locked Node executes, `token` says whether it needs a PKCS#11
 * module.
 *
 * @type {Record<string, { command: string[], token: boolean } | undefined>}
 */
export const TARGETS = {
  start: { command: ["src/main.ts", "dev"], token: true },
  test: { command: [...VITEST, "test/vitest.config.ts"], token: true },
  "test:slow": { command: [...VITEST, "test/vitest.slow.config.ts"], token: true },
  bench: { command: ["test/bench/main.ts"], token: true },
  fuzz: { command: ["test/fuzz/main.ts"], token: false },
  conformance: { command: ["test/conformance/main.ts"], token: true },
  messages: { command: ["test/messages.ts"], token: false },
  contract: { command: ["test/specification/main.ts"], token: false },
  deputize: { command: ["src/main.ts"], token: false },
  keyvault: { command: ["keyvault/main.ts"], token: true },
};
