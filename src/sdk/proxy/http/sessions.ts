import type { IncomingHttpHeaders } from "node:http";
import type { Session } from "../session.ts";

/** The sessions that the server behind the proxy has started. Each belongs to the agent that started it. */
export type HttpSessions = {
  hold(id: string, owner: string, session: Session): void;
  /** Returns the session that a request names, `undefined` if it names none, or `"foreign"`. */
  find(headers: IncomingHttpHeaders, owner: string): Session | "foreign" | undefined;
  end(id: string): void;
  endAll(): void;
};

type Held = { session: Session; owner: string };

/** Each agent has this many sessions. A new one ends the oldest of the same agent, and of no other. */
const SESSIONS_PER_AGENT = 100;

export function createHttpSessions(): HttpSessions {
  const held = new Map<string, Held>();

  function end(id: string): void {
    held.get(id)?.session.end();
    held.delete(id);
  }

  return {
    hold(id, owner, session) {
      const own = [...held].filter(([, each]) => each.owner === owner).map(([each]) => each);
      if (own.length >= SESSIONS_PER_AGENT) end(own[0] ?? id);
      held.set(id, { session, owner });
    },
    find({ "mcp-session-id": id }, owner) {
      if (id === undefined) return undefined;
      const found = held.get(String(id));
      return found?.owner === owner ? found.session : "foreign";
    },
    end,
    endAll: () => [...held.keys()].forEach(end),
  };
}
