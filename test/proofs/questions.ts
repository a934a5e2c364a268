import type { Application } from "./application.ts";

/** An AuthZEN question about an application's agent: may it read data? `changes` replace members. */
export const question = (app: Application, changes: Record<string, unknown> = {}) => ({
  subject: { type: "agent", id: app.agentId },
  action: { name: "data:read" },
  resource: { type: "connection", id: app.platform.connectionId },
  ...changes,
});
