import { randomUUID } from "node:crypto";
import type { TestProject } from "vitest/node";
import { createVisitor, type Visitor, type VisitorState } from "./visitor.ts";

/** An account that the suite created, with the secrets that the service showed only once. */
export type Someone = {
  email: string;
  accountId: string;
  humanId: string;
  browser: VisitorState;
  platform: Record<string, unknown>;
};

declare module "vitest" {
  // biome-ignore lint/style/useConsistentTypeDefinitions: merged with the library's own
  interface ProvidedContext {
    settings: import("./settings.ts").Settings;
    ada: Someone;
    grace: Someone;
  }
}

/** Every scope that the suite delegates or requests. */
export const CEILING = ["data:read", "data:share", "payments:send", "custom:orders:refund"];

/** Opens two personal accounts, each with a platform, for all files, because sign-in codes are limited. */
export default async function setup(project: TestProject): Promise<void> {
  const settings = project.getProvidedContext().settings;
  for (const name of ["ada", "grace"] as const) {
    const visitor = createVisitor(settings);
    const email = `${name}-${randomUUID()}@example.test`;
    const account = await openAccount(visitor, email);
    const platform = await visitor.call("POST", "/v1/service/platforms/personal", {
      name: "Shop",
      surface_type: "agentic_api",
      default_allowed_scopes: CEILING,
    });
    if (platform.status !== 201) throw new Error(`no platform: ${platform.text}`);
    project.provide(name, { email, ...account, browser: visitor.state(), platform: platform.body });
  }
}

async function openAccount(visitor: Visitor, email: string) {
  await visitor.signIn(email);
  await visitor.call("POST", "/v1/auth/onboarding/profile", { first_name: "Ada", last_name: "Lovelace" });
  const { status, body, text } = await visitor.call("POST", "/v1/auth/onboarding/account-type", {
    account_type: "individual",
  });
  if (status !== 200) throw new Error(`no account: ${text}`);
  const session = await visitor.call("GET", "/v1/auth/session");
  return { accountId: String(session.body.account_id), humanId: String(body.human_id) };
}
