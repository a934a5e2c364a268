import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { findMessages, messagesOf } from "./support/messages.ts";

const said = (source: string) => messagesOf("a.ts", source).map(({ line, text }) => [line, text]);

test("the search finds messages of errors, refusals, checks and tables, with their placeholders", () => {
  expect(
    said(`
      throw new ApiError("invalid_scope", \`\${where}: is not a scope\`);
      const schema = z.string().regex(/^a b$/, "must not contain control characters");
      return refuse("policy_violation", wide ? "This is too wide" : "This is too narrow");
      const errorCodes = { not_found: [404, "There is no such thing"] };
      const other = "not a message";
      log.info("api listens");`),
  ).toEqual([
    [2, "{where}: is not a scope"],
    [3, "must not contain control characters"],
    [4, "This is too wide"],
    [4, "This is too narrow"],
    [5, "There is no such thing"],
  ]);
});

test("the search finds messages of the service and of its vault", () => {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const texts = findMessages(root, ["src/proofs/verify/*.ts", "keyvault/**/*.ts"]).map(({ text }) => text);
  expect(texts).toContain("The backup is incomplete or out of order");
  expect(texts).toContain("proof_bundle: is required");
});
