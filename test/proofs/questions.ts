import type { Application } from "./application.ts";

/** Asks whether an application's agent may read data. `changes` replaces members. */
export const question = (app: Application, changes: Record<string, unknown> = {}) => ({
  subject: { type: "agent", id: app.agentId },
  action: { name: "data:read" },
  resource: { type: "connection", id: app.platform.connectionId },
  ...changes,
});
