import type { Application } from "./application.ts";

/**
 * Returns an AuthZEN question that asks whether an application's agent may read data. `changes` replaces
 * members.
 */
export const question = (app: Application, changes: Record<string, unknown> = {}) => ({
  subject: { type: "agent", id: app.agentId },
  action: { name: "data:read" },
  resource: { type: "connection", id: app.platform.connectionId },
  ...changes,
});
